"""A table in a SQL database: SQLite, PostgreSQL or MySQL."""

from airflow_cdc.controls.sql.kind import SqlControlSettings
from airflow_cdc.core.kind import ControlKind, Lazy

KIND = ControlKind(
    name="sql",
    title="SQL database",
    settings=SqlControlSettings,
    endpoint=Lazy(".kind:SqlEndpoint", __name__),
    client=Lazy(".store:SqlControlStore", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.sql_control:SqlControlHook"),
    form=Lazy(".kind:FORM", __name__),
)
