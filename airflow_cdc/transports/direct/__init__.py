"""Nothing between connector and sink: the connector writes the sink itself."""

from airflow_cdc.core.kind import Lazy, TransportKind
from airflow_cdc.transports.direct.kind import DirectSettings

KIND = TransportKind(
    name="direct",
    title="No transport",
    settings=DirectSettings,
    endpoint=Lazy(".client:DirectEndpoint", __name__),
    client=Lazy(".client:DirectTransport", __name__),
    hook=None,
    setup=Lazy(".kind:SETUP", __name__),
)
