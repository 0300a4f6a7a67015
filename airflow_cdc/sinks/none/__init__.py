"""No sink: consumers unknown to this package read the pipeline's events."""

from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.core.pipeline import NoSink

KIND = SinkKind(
    name="none",
    title="No sink",
    settings=NoSink,
    endpoint=Lazy(".client:NoEndpoint", __name__),
    client=Lazy(".client:NoSinkClient", __name__),
    hook=None,
    setup=Lazy(".client:SETUP", __name__),
)
