"""A table in a SQL database: SQLite, PostgreSQL or MySQL."""

from airflow_cdc.controls.sql.settings import SqlControlSettings
from airflow_cdc.core.kind import ControlKind, Lazy

KIND = ControlKind(
    name="sql",
    title="SQL database",
    settings=SqlControlSettings,
    endpoint=Lazy(".endpoint:SqlEndpoint", __name__),
    client=Lazy(".store:SqlControlStore", __name__),
    setup=Lazy(".setup:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.sql_control:SqlControlHook"),
    form=Lazy(".connection:FORM", __name__),
)
