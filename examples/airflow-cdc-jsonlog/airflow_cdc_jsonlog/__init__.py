"""A folder of numbered JSON-lines files as a source. Light: what is named by Lazy is imported when it is used."""

from airflow_cdc.core.kind import Lazy, Reads, SourceKind
from airflow_cdc_jsonlog.settings import JsonLogSettings

KIND = SourceKind(
    name="jsonlog",
    title="JSON log",
    settings=JsonLogSettings,
    endpoint=Lazy(".client:JsonLogEndpoint", __name__),
    client=Lazy(".client:JsonLogSource", __name__),
    hook=Lazy(".hook:JsonLogHook", __name__),
    read_position=Lazy(".position:read_position", __name__),
    read_by={"debezium": Reads(codec=Lazy(".codec:JsonLogCodec", __name__))},
)
