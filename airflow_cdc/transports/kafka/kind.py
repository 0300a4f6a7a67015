"""What is known of Kafka before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection, Spark's jars."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from airflow_cdc.core.pipeline import TransportSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import HTTPS, Answers, Key, NewConnection, Question, Setup, form_field
from airflow_cdc.core.spark_jars import Need, Of


@settings
class KafkaSettings(TransportSpec):
    """The brokers of one Kafka cluster."""

    conn_id: str = key("Airflow connection (`cdc_kafka` or `kafka`) of the brokers.", form=CONNECTION)
    registry: str = key(
        "Airflow connection (`cdc_schema_registry` or `http`) of the schema registry, for a connector that writes Avro. By"
        " default the registry that the connector's own converter settings name, with their login.",
        form=CONNECTION,
        default="",
    )

    @property
    def schemas_conn_id(self) -> str:
        """See TransportSpec."""
        return self.registry


def keys(name: str, _answers: Answers) -> Sequence[Key]:
    """The keys under `transport`."""
    return (Key("conn_id", f"{name}_kafka"),)


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The brokers' connection."""
    extra = json.dumps({"bootstrap.servers": answers["kafka"]})
    return (NewConnection(f"{name}_kafka", "cdc_kafka", extra=extra),)


SETUP = Setup(
    (Question("kafka", "Kafka's bootstrap servers", "localhost:9092"),),
    keys,
    connections,
    (
        "registry: CONN_ID  # of Avro's schemas, where the connector's own settings do not lead from here to their registry",
    ),
)


REGISTRY_FORM: Final[dict[str, object]] = {
    "connection-type": "cdc_schema_registry",
    "hook-class-name": "airflow_cdc.hooks.schema_registry.SchemaRegistryHook",
    "hook-name": "CDC schema registry",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Scheme", "host": "Host or URL"},
        "placeholders": {"host": "https://registry.example:8081 (Apicurio: …/apis/registry/v2)", "schema": "http"},
    },
    "conn-fields": HTTPS,
}

FORM: Final[dict[str, object]] = {
    "connection-type": "cdc_kafka",
    "hook-class-name": "airflow_cdc.hooks.kafka.CdcKafkaHook",
    "hook-name": "CDC Kafka transport",
    "ui-field-behaviour": {
        "hidden-fields": ["schema"],
        "relabeling": {"login": "SASL user, or OAuth client id", "password": "SASL password, or OAuth client secret"},
    },
    "conn-fields": {
        "bootstrap.servers": form_field("Bootstrap servers", "host:port,host:port"),
        "security.protocol": form_field(
            "Security protocol", enum=["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", None], default="PLAINTEXT"
        ),
        "sasl.mechanism": form_field(
            "SASL mechanism", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM"
        ),
        "sasl.oauthbearer.token.endpoint.url": form_field(
            "OAuth: token URL", "Login and password are the client's id and secret"
        ),
        "sasl.oauthbearer.scope": form_field("OAuth: scope"),
        "ssl.cafile": form_field("TLS: CA file", "Path"),
        "ssl.certfile": form_field("TLS: client certificate", "Path"),
        "ssl.keyfile": form_field("TLS: client key", "Path"),
    },
}


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
