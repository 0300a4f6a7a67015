"""Kafka clients with bounded timeouts. Their failures become TransportErrors without secrets."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConfigError, TransportError
from airflow_cdc.core.text import first_named
from airflow_cdc.core.topics import NewestRecord

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.consumer.fetcher import ConsumerRecord

    from airflow_cdc.transports.kafka.oauth import Tokens

_CHECK_BOOTSTRAP: Final = (
    "Check bootstrap.servers, the login and the security settings, and that a broker answers there."
)
_POLL_MS: Final = 500
# of each partition: a delete's tombstone, or the mark of a transaction, may be the last
_NEWEST: Final = 4
# how many times as far back, if none of them has a value
_FURTHER: Final = 20
# setting → kafka-python's name for it; "": it is part of another one
_SETTINGS: Final[dict[str, str]] = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.oauthbearer.token.endpoint.url": "",
    "sasl.oauthbearer.scope": "",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.cafile": "ssl_cafile",
    "ssl.certfile": "ssl_certfile",
    "ssl.keyfile": "ssl_keyfile",
    "ssl.password": "ssl_password",
    "ssl.check_hostname": "ssl_check_hostname",
}
OAUTHBEARER: Final = "OAUTHBEARER"
AWS_MSK_IAM: Final = "AWS_MSK_IAM"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105
SCOPE: Final = "sasl.oauthbearer.scope"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class KafkaEndpoint:
    """Address and credentials of a Kafka cluster.

    `security` holds security.protocol, sasl.mechanism, sasl.username, sasl.password (with OAUTHBEARER: the client's id
    and secret), sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.scope, ssl.cafile, ssl.certfile, ssl.keyfile
    (PEM files), ssl.password, ssl.check_hostname. `timeout` bounds each call, in seconds.
    """

    bootstrap: str
    security: dict[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 30.0

    def __post_init__(self) -> None:
        servers = ",".join(part.strip() for part in self.bootstrap.split(",") if part.strip())
        if not servers:
            raise ConfigError("the Kafka connection has no bootstrap servers", todo="Write one like kafka:9092.")
        settings = {key: value for key, value in (self.security or {}).items() if value not in (None, "")}
        if settings.get("sasl.username"):
            settings.setdefault("sasl.mechanism", OAUTHBEARER if settings.get(TOKEN_URL) else "PLAIN")
        object.__setattr__(self, "bootstrap", servers)
        object.__setattr__(self, "security", settings)
        _check(settings, self.where)

    @property
    def where(self) -> str:
        """How messages name this cluster."""
        return f"Kafka {self.bootstrap}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return replace(self, timeout=min(self.timeout, limits.topic))


def _check(security: Mapping[str, str], where: str) -> None:
    if unknown := sorted(set(security) - set(_SETTINGS)):
        known = ", ".join(sorted(_SETTINGS))
        raise ConfigError(f"unknown Kafka setting {unknown[0]!r}", where=where, todo=f"Known: {known}.")
    protocol = str(security.get("security.protocol", "PLAINTEXT")).upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            f"unknown security.protocol {protocol!r}", where=where, todo=f"Use one of {', '.join(_PROTOCOLS)}."
        )
    if "sasl.username" in security and not protocol.startswith("SASL"):
        raise ConfigError(
            f"a login is given but security.protocol is {protocol}, so it would not be used",
            where=where,
            todo="Set security.protocol to SASL_SSL (or SASL_PLAINTEXT).",
        )
    if by_token(security) and not (security.get(TOKEN_URL) and security.get("sasl.username")):
        raise ConfigError(
            f"{OAUTHBEARER} needs a server that issues tokens, and a client's id and secret",
            where=where,
            todo=f"Set {TOKEN_URL}, and the connection's login (client id) and password (client secret).",
        )


def by_token(security: Mapping[str, str]) -> bool:
    """Whether the login is a token."""
    return str(security.get("sasl.mechanism", "")).upper() == OAUTHBEARER


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic, as bytes."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@contextmanager
def explaining(where: str, doing: str) -> Iterator[None]:
    """Turn kafka-python's failures into TransportErrors that say what was tried."""
    from kafka.errors import KafkaError

    try:
        yield
    except TransportError:
        raise
    except (KafkaError, OSError, ValueError, AssertionError, TimeoutError) as error:
        raise _explain(error, where, doing) from None


@contextmanager
def admin(endpoint: KafkaEndpoint) -> Iterator[KafkaAdminClient]:
    """An admin client, closed at the end. Raises TransportError that says why no broker could be used."""
    client = _reach(endpoint)
    try:
        yield client
    finally:
        client.close()


def _reach(endpoint: KafkaEndpoint) -> KafkaAdminClient:
    """Create an admin client, which connects at once.

    On failure kafka-python only reports a timeout: the reason (refused, certificate, login) goes to its log, and the
    client keeps its thread and sockets. Here the reason goes into the error, and the thread and sockets are freed.
    """
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    heard, log = _Heard(), logging.getLogger("kafka.net.manager")
    client = KafkaAdminClient.__new__(KafkaAdminClient)
    log.addHandler(heard)
    try:
        KafkaAdminClient.__init__(client, **_options(endpoint))
    except (KafkaError, OSError, ValueError) as error:
        raise _explain(error, endpoint.where, "reach a broker", heard.reason(_give_up(client))) from None
    finally:
        log.removeHandler(heard)
    return client


class _Heard(logging.Handler):
    """Remembers, per thread, why the last connection attempt failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._reasons: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Bootstrap connection to") and isinstance(record.args, tuple):
            self._reasons[record.thread] = str(record.args[1])

    def reason(self, thread: int | None) -> str:
        return self._reasons.get(thread, "")


def _give_up(client: object) -> int | None:
    """Free the resources of a client that never connected; returns the id of its thread."""
    net = getattr(client, "_net", None)
    thread = getattr(getattr(net, "_io_thread", None), "ident", None)
    for part, end in ((getattr(client, "_client", None), "close"), (net, "stop")):
        if part is not None:
            with suppress(Exception):
                getattr(part, end)()
    return thread


@contextmanager
def producer(endpoint: KafkaEndpoint, **settings: object) -> Iterator[KafkaProducer]:
    """A producer that waits for all replicas, with further settings of the library; closed at the end."""
    from kafka import KafkaProducer

    with explaining(endpoint.where, "reach a broker"):
        client = KafkaProducer(acks="all", **settings, **_options(endpoint))
    try:
        yield client
    finally:
        client.close(endpoint.timeout)


def read_all(endpoint: KafkaEndpoint, topic: str, ranges: Mapping[int, tuple[int, int]] | None = None) -> list[Record]:
    """Every committed record of a topic, up to its current ends, in order within each partition.

    `ranges` (partition → first offset, end) selects a part of it. For small topics (offsets, schema history and
    changes). Raises TransportError if there is no such topic, the ends are not reached within its timeout, or the broker
    has deleted the first record of a range.
    """
    with _reading(endpoint, topic, ranges) as records:
        return list(records)


def read_few(
    endpoint: KafkaEndpoint, topic: str, ranges: Mapping[int, tuple[int, int]], most_bytes: int
) -> list[Record] | None:
    """The committed records in `ranges`, as read_all gives them; None if their keys and values are larger together."""
    few: list[Record] = []
    if not ranges:
        return few
    with _reading(endpoint, topic, ranges) as records:
        for record in records:
            most_bytes -= len(record.key or b"") + len(record.value or b"")
            if most_bytes < 0:
                return None
            few.append(record)
    return few


@contextmanager
def _reading(
    endpoint: KafkaEndpoint, topic: str, ranges: Mapping[int, tuple[int, int]] | None
) -> Iterator[Iterator[Record]]:
    """The committed records of a topic, or of ranges of it, while the block lasts."""
    from kafka import KafkaConsumer, TopicPartition

    where = f"{endpoint.where}, topic {topic}"
    with explaining(where, "read the topic"):
        numbers = _partitions(endpoint, topic, where) if ranges is None else list(ranges)
        partitions = [TopicPartition(topic, number) for number in numbers]
        # exactly-once workers write in transactions; aborted records must not be read
        consumer = KafkaConsumer(
            **_options(endpoint),
            isolation_level="read_committed",
            enable_auto_commit=False,
            # a deleted start of a range is an error: "earliest" would go on with the next record and report nothing
            auto_offset_reset="earliest" if ranges is None else "none",
        )
        try:
            consumer.assign(partitions)
            if ranges is None:
                consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions) if ranges is None else {}
            for part, (start, end) in ((part, ranges[part.partition]) for part in partitions if ranges):
                consumer.seek(part, start)
                ends[part] = end
            yield _drain(consumer, ends, time.monotonic() + endpoint.timeout, where)
        finally:
            consumer.close()


def read_newest(endpoint: KafkaEndpoint, parts: Mapping[tuple[str, int], tuple[int, int]]) -> dict[str, NewestRecord]:
    """Topic → the newest of the last committed records of its partitions ((topic, partition) → first offset, end).

    A record without a value counts only where no other is read. A topic that is not read in time is absent.
    """
    from kafka import KafkaConsumer, TopicPartition

    newest: dict[str, NewestRecord] = {}
    if not parts:
        return newest
    with explaining(endpoint.where, "read the newest records"):
        consumer = KafkaConsumer(
            **_options(endpoint),
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # retention may remove what is asked for: any record tells
        )
        try:
            ends = consumer.end_offsets([TopicPartition(*part) for part in parts])  # of what is committed
            firsts = {part: parts[tuple(part)][0] for part in ends}
            back, deadline = _NEWEST, time.monotonic() + endpoint.timeout
            while ends and time.monotonic() < deadline:
                begins = {part: max(firsts[part], end - back) for part, end in ends.items()}
                for one in _between(consumer, begins, ends, deadline):
                    newest[one.topic] = _newer(newest.get(one.topic), one)
                # records that were rolled back, or have no value, may be all that the end of a topic has
                ends = {part: at for part, at in begins.items() if at > firsts[part] and not _tells(newest, part.topic)}
                back *= _FURTHER
        finally:
            consumer.close()
    return newest


def _between(
    consumer: KafkaConsumer, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], deadline: float
) -> Iterator[ConsumerRecord]:
    """The committed records of these partitions from an offset on, at least up to another."""
    consumer.assign(list(begins))
    for part, at in begins.items():
        consumer.seek(part, at)
    while time.monotonic() < deadline and any(consumer.position(part) < end for part, end in ends.items()):
        for batch in consumer.poll(timeout_ms=_POLL_MS).values():
            yield from batch


def _tells(newest: Mapping[str, NewestRecord], topic: str) -> bool:
    return topic in newest and newest[topic].value is not None


def _newer(known: NewestRecord | None, record: ConsumerRecord) -> NewestRecord:
    carried = _headers(record)
    names = tuple(name for name, _ in carried)
    other = NewestRecord(record.key, record.value, names, max(record.timestamp or 0, 0), carried)
    if known is None:
        return other
    return max(other, known, key=lambda one: (one.value is not None, one.at_ms))


def _partitions(endpoint: KafkaEndpoint, topic: str, where: str) -> list[int]:
    with admin(endpoint) as client:
        described = client.describe_topics([topic])[0]
    if described["error_code"] or not described["partitions"]:
        raise TransportError(
            "the topic does not exist, or the user may not read it", where=where, todo="Check its name."
        )
    return sorted(int(part["partition_index"]) for part in described["partitions"])


def _drain(
    consumer: KafkaConsumer, ends: Mapping[TopicPartition, int], deadline: float, where: str
) -> Iterator[Record]:
    while any(consumer.position(part) < end for part, end in ends.items()):
        if time.monotonic() > deadline:
            raise TransportError("the end of the topic was not reached in time", where=where, todo="Try again.")
        for part, batch in consumer.poll(timeout_ms=_POLL_MS).items():
            for record in batch:
                if record.offset < ends[part]:
                    yield Record(record.partition, record.offset, record.key, record.value, _headers(record))


def _headers(record: ConsumerRecord) -> tuple[tuple[str, bytes], ...]:
    """A header without a value is empty."""
    return tuple((str(name), value or b"") for name, value in record.headers or ())


def _quiet() -> None:
    """Keep kafka-python out of task logs: 17,529 lines of INFO in ten minutes. Where somebody set a level, it stays.

    At DEBUG level its admin client logs its whole configuration, including the password.
    """
    ours, admin = logging.getLogger("kafka"), logging.getLogger("kafka.admin.client")
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.WARNING)
    admin.setLevel(max(admin.level, logging.INFO))


def _options(endpoint: KafkaEndpoint) -> dict[str, object]:
    _quiet()
    ms = int(endpoint.timeout * 1000)
    options: dict[str, object] = {name: value for key, value in endpoint.security.items() if (name := _SETTINGS[key])}
    if by_token(endpoint.security):
        options["sasl_oauth_token_provider"] = _tokens(endpoint)
    if "ssl_check_hostname" in options:
        options["ssl_check_hostname"] = str(options["ssl_check_hostname"]).lower() not in ("false", "0", "no")
    return {
        "client_id": "airflow-provider-cdc",
        **options,
        "bootstrap_servers": endpoint.bootstrap.split(","),
        "request_timeout_ms": ms,
        "bootstrap_timeout_ms": ms,
    }


def _tokens(endpoint: KafkaEndpoint) -> Tokens:
    from airflow_cdc.transports.kafka.oauth import TokenClient, Tokens

    given = endpoint.security
    user, password = given["sasl.username"], given.get("sasl.password", "")
    tokens = Tokens(TokenClient(given[TOKEN_URL], user, password, given.get(SCOPE, ""), endpoint.timeout))
    tokens.token()  # a refusal is told here: kafka-python would try until its time is over
    return tokens


# Words in kafka-python's reasons → what to do; the first match counts.
_TODOS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (
        ("Authentication", "Sasl"),
        "Check the login, its password (of a token: its issuer and audience), mechanism and security.protocol.",
    ),
    (("Authorization",), "Grant the user access to it."),
    (
        ("OffsetOutOfRange",),
        "The broker has deleted these records (retention): read the tables again with cdc_recovery.",
    ),
    (
        ("SSL", "CERTIFICATE", "No such file", "PEM"),
        "Check security.protocol and the ssl files of the Kafka connection.",
    ),
    (
        ("DNS", "REFUSED", "imed out", "Unable to bootstrap"),
        "Check bootstrap.servers, and that a broker answers there.",
    ),
)


def _explain(error: Exception, where: str, doing: str, heard: str = "") -> TransportError:
    reason = heard or str(error).strip() or type(error).__name__
    todo = first_named(_TODOS, reason, _CHECK_BOOTSTRAP)
    return TransportError(f"could not {doing}: {reason[:300]}", where=where, todo=todo)
