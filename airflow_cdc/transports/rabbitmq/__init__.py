"""RabbitMQ. A stream queue has offsets and can be read again; what was taken from any other queue is gone."""

from airflow_cdc.core.kind import Lazy, TransportKind
from airflow_cdc.transports.rabbitmq.kind import RabbitMqSettings

EXTRA = "rabbitmq"

KIND = TransportKind(
    name="rabbitmq",
    title="RabbitMQ",
    settings=RabbitMqSettings,
    endpoint=Lazy(".endpoint:RabbitMqEndpoint", __name__),
    client=Lazy(".client:RabbitMqTransport", __name__, EXTRA),
    rules=Lazy(".problems:RULES", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.rabbitmq:CdcRabbitMqHook"),
    form=Lazy(".kind:FORM", __name__),
    reader=Lazy("airflow_cdc.spark_apps.adapters.rabbitmq:StreamQueues", extra=EXTRA),
)
