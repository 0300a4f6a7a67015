"""Ranges of Kafka topics, read by Spark as one batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.spark_apps.events import RAW_HEADERS, RAW_SCHEMA
from airflow_cdc.transports.kafka.wire import AWS_MSK_IAM, SCOPE, by_token, read_few

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.spark_apps.ports import Bounds, Ranges
    from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport

# More records than this in a batch are read by several tasks per partition.
SPLIT_AT = 10_000
SPLITS = 4

_JAAS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_IAM = "software.amazon.msk.auth.iam"


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """The topics of a cluster, as ports.TopicReader. `headers`: whether records are read with theirs."""

    transport: KafkaTransport
    headers: bool = False

    def with_headers(self) -> KafkaTopics:
        """See ports.ReadsHeaders."""
        return replace(self, headers=True)

    def read(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """See `read_topics`."""
        return read_topics(spark, self.transport.endpoint, ranges, headers=self.headers)

    def few(self, topic: str, bounds: Bounds, most_bytes: int) -> Sequence[TopicRecord] | None:
        """See ports.ReadsFew."""
        return read_few(self.transport.endpoint, topic, nonempty({topic: bounds}).get(topic, {}), most_bytes)


def count(ranges: Ranges) -> int:
    """How many offsets the ranges span."""
    return sum(max(0, end - start) for partitions in ranges.values() for start, end in partitions.values())


def nonempty(ranges: Ranges) -> dict[str, dict[int, tuple[int, int]]]:
    """The ranges without empty partitions and topics."""
    result = {topic: {p: (a, b) for p, (a, b) in partitions.items() if b > a} for topic, partitions in ranges.items()}
    return {topic: partitions for topic, partitions in result.items() if partitions}


def read_topics(spark: SparkSession, endpoint: KafkaEndpoint, ranges: Ranges, *, headers: bool = False) -> DataFrame:
    """The records in the ranges, as (topic, partition, offset, key, value); key and value are bytes.

    `headers`: and their headers as RAW_HEADERS, NULL where a record has none.

    One batch with explicit starting and ending offsets: offsets that the broker no longer has fail the job, they
    are not skipped. Ranges without a record cost nothing: no connection, no job.
    """
    bounds = nonempty(ranges)
    if not bounds:
        return spark.createDataFrame([], f"{RAW_SCHEMA}, {RAW_HEADERS}" if headers else RAW_SCHEMA)
    options = {
        **kafka_options(endpoint),
        "assign": json.dumps({topic: sorted(partitions) for topic, partitions in bounds.items()}),
        "startingOffsets": _offsets(bounds, 0),
        "endingOffsets": _offsets(bounds, 1),
        "failOnDataLoss": "true",
        "includeHeaders": str(headers).lower(),
        # an exactly-once worker writes in transactions; aborted ones must not be read
        "kafka.isolation.level": "read_committed",
    }
    if count(bounds) > SPLIT_AT:
        options["minPartitions"] = str(SPLITS * sum(len(partitions) for partitions in bounds.values()))
    columns = ["topic", "partition", "offset", "key", "value", *(["headers"] if headers else [])]
    return spark.read.format("kafka").options(**options).load().select(*columns)


def _offsets(ranges: Ranges, side: int) -> str:
    return json.dumps({t: {str(p): bounds[side] for p, bounds in sorted(ps.items())} for t, ps in ranges.items()})


def kafka_options(endpoint: KafkaEndpoint) -> dict[str, str]:
    """Spark's Kafka options for an endpoint; may hold a password: never for a log."""
    security = dict(endpoint.security)
    token = _oauth(security) if by_token(security) else _iam(security)
    username, password = security.pop("sasl.username", None), security.pop("sasl.password", "")
    options = {"kafka.bootstrap.servers": endpoint.bootstrap, **_pem(security), **token}
    if username and not token:
        options["kafka.sasl.jaas.config"] = _jaas(security.get("sasl.mechanism", "PLAIN"), username, password)
        options.setdefault("kafka.sasl.mechanism", "PLAIN")
    return {**options, **{f"kafka.{key}": str(value) for key, value in security.items()}}


def _oauth(security: dict[str, str]) -> dict[str, str]:
    """The client by whose tokens the JVM logs in. Removes it from `security`, but for the token server's address."""
    client = {"clientId": security.pop("sasl.username"), "clientSecret": security.pop("sasl.password", "")}
    if scope := security.pop(SCOPE, None):
        client["scope"] = scope
    login = " ".join(f"{name}={_quoted(value)}" for name, value in client.items())
    return {
        "kafka.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required {login};",
        "kafka.sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
    }


def _iam(security: Mapping[str, str]) -> dict[str, str]:
    """What the JVM needs for IAM of Amazon MSK, from AWS's own jar; nothing for other mechanisms."""
    if str(security.get("sasl.mechanism", "")).upper() != AWS_MSK_IAM:
        return {}
    return {
        "kafka.sasl.jaas.config": f"{_IAM}.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": f"{_IAM}.IAMClientCallbackHandler",
    }


def _pem(security: dict[str, str]) -> dict[str, str]:
    """PEM files in the JVM client's form: by content, so that executors need no files. Removes them from `security`."""
    files = {key: security.pop(key, None) for key in ("ssl.cafile", "ssl.certfile", "ssl.keyfile")}
    checks_name = str(security.pop("ssl.check_hostname", "true")).lower() != "false"
    options = {} if checks_name else {"kafka.ssl.endpoint.identification.algorithm": ""}
    if files["ssl.cafile"]:
        options["kafka.ssl.truststore.type"] = "PEM"
        options["kafka.ssl.truststore.certificates"] = _content(files["ssl.cafile"])
    if files["ssl.certfile"]:
        options["kafka.ssl.keystore.type"] = "PEM"
        options["kafka.ssl.keystore.certificate.chain"] = _content(files["ssl.certfile"])
        options["kafka.ssl.keystore.key"] = _content(files["ssl.keyfile"] or files["ssl.certfile"])
    if password := security.pop("ssl.password", None):
        options["kafka.ssl.key.password"] = str(password)
    return options


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the PEM file cannot be read: {type(error).__name__}",
            where=str(path),
            todo="Correct the Kafka connection.",
        ) from error


def _jaas(mechanism: str, username: str, password: str) -> str:
    module = _JAAS.get(mechanism.upper())
    if module is None:
        raise ConfigError(
            f"sasl.mechanism {mechanism} is not supported for Spark",
            where="the Kafka connection",
            todo=f"Use one of {', '.join(_JAAS)}.",
        )
    return f"{module} required username={_quoted(username)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
