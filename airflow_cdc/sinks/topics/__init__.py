"""The topics themselves: consumers that nobody has to know, put right through what they read."""

from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.sinks.topics.kind import TopicsSettings

KIND = SinkKind(
    name="topics",
    title="Consumers of the topics",
    settings=TopicsSettings,
    endpoint=Lazy(".client:TopicsEndpoint", __name__),
    client=Lazy(".client:Topics", __name__),
    hook=None,
    setup=Lazy(".kind:SETUP", __name__),
)
