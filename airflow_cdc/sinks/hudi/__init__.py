"""Apache Hudi: one table per source table, in a folder that Airflow's workers and Spark share."""

from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.sinks.hudi.kind import HudiSettings

EXTRA = "hudi"

KIND = SinkKind(
    name="hudi",
    title="Apache Hudi",
    settings=HudiSettings,
    endpoint=Lazy(".endpoint:HudiEndpoint", __name__),
    client=Lazy(".client:HudiSink", __name__, EXTRA),
    setup=Lazy(".kind:SETUP", __name__),
    hook=None,
    jars=Lazy(".kind:JARS", __name__),
    stages=Lazy("airflow_cdc.spark_apps.adapters.hudi:HudiWriter", extra=EXTRA),
    keeper=Lazy("airflow_cdc.spark_apps.adapters.hudi_keeper:HudiKeeper", extra=EXTRA),
    letters=Lazy("airflow_cdc.spark_apps.adapters.hudi_letters:HudiLetters", extra=EXTRA),
    publishes_with_spark=True,
    spark="3.5",
)
