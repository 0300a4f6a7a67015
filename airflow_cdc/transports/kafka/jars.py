"""What Spark needs to read Kafka's topics."""

from __future__ import annotations

from airflow_cdc.core.spark_jars import Need, Of

KAFKA = Need(
    "spark-sql-kafka-0-10",
    "reads the topics",
    "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}",
    "org/apache/spark/sql/kafka010/KafkaSourceProvider.class",
    Of.SCALA,
)
# needed by the Kafka source itself
OF_KAFKA = (
    Need(
        "spark-token-provider-kafka-0-10",
        "is needed by the Kafka source",
        "org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{spark}",
        "org/apache/spark/kafka010/KafkaConfigUpdater.class",
        Of.SCALA,
        comes_with=KAFKA,
    ),
    Need(
        "kafka-clients",
        "is needed by the Kafka source",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org/apache/kafka/clients/consumer/KafkaConsumer.class",
        comes_with=KAFKA,
    ),
    Need(
        "commons-pool2",
        "is needed by the Kafka source",
        "org.apache.commons:commons-pool2:2.12.1",
        "org/apache/commons/pool2/ObjectPool.class",
        comes_with=KAFKA,
    ),
)
JARS = (KAFKA, *OF_KAFKA)
