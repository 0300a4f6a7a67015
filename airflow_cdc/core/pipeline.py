"""A pipeline as declared in pipelines.yaml: source, connector, transport, sink, Spark, policy."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_cdc.core.duration import parse_duration
from airflow_cdc.core.errors import ConfigError

_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of rows, or a share of them: "1000" or "1%" (`amount` 1.0, `percent` True)."""

    amount: float
    percent: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "amount", float(self.amount))

    @classmethod
    def parse(cls, value: str | float) -> Limit:
        """Read "1%" or 1000. Raises ConfigError."""
        match = None if isinstance(value, bool) else _LIMIT.fullmatch(str(value).strip())
        if match is None or (match[2] and float(match[1]) > 100):
            raise ConfigError(f"{value!r} is not a limit", todo="Write a number of rows or a share like 1%.")
        return cls(float(match[1]), bool(match[2]))

    def __str__(self) -> str:
        return f"{self.amount:g}%" if self.percent else f"{self.amount:.0f}"

    def exceeded_by(self, removed: int, total: int) -> bool:
        """True when removing `removed` of `total` rows is more than allowed."""
        return removed > (total * self.amount / 100 if self.percent else self.amount)


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """The server read from, its captured tables ("schema.table"), and connections of its replicas."""

    kind: str
    conn_id: str
    tables: tuple[str, ...]
    replicas: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(self.tables))
        object.__setattr__(self, "replicas", tuple(self.replicas))


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """The connector: where its REST interface is, and its name there."""

    kind: str
    conn_id: str
    name: str


@dataclass(frozen=True, slots=True)
class TransportSpec:
    """The topics between connector and sink."""

    kind: str
    conn_id: str


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """The lake: catalog, namespace, and who writes its tables."""

    kind: str
    catalog: str
    namespace: str
    writer: str = "cdc_apply"


def sink_name(table: str) -> str:
    """The sink's name of a source table: its own, unless it has characters that a path or a catalog may not take.

    These become _, and a hash of the whole name keeps two such tables apart: "my table" is "my_table_0ab2f1c4".
    """
    plain = re.sub(r"[^\w$-]", "_", table)
    return table if plain == table else f"{plain}_{hashlib.sha256(table.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class SparkSpec:
    """The Airflow connection of the Spark cluster."""

    conn_id: str = "spark_default"


@dataclass(frozen=True, slots=True)
class BackfillSpec:
    """How a table is cut into intervals of a day, for `cdc_backfill__<pipeline>`.

    Attributes:
        by: the column. Alone: a DATE, DATETIME or TIMESTAMP (UTC) that lies in the interval.
        format: the column holds the interval's day, written so (strftime): a partition.
        step: the interval has `step` keys, counted from 0 at the day `origin` (ISO date): a key range.
    """

    table: str
    by: str
    format: str = ""
    step: int = 0
    origin: str = ""

    def __post_init__(self) -> None:
        if bool(self.step) != bool(self.origin) or (self.step and self.format):
            raise ConfigError(
                "`step` and `origin` belong together, and not with `format`",
                where=f"backfill of {self.table}",
                todo="Write {table, by}, {table, by, format} or {table, by, step, origin}.",
            )


@dataclass(frozen=True, slots=True)
class HoldPolicy:
    """Whether to hold the binlog during a recovery: auto, required or off; `max` in seconds."""

    mode: str = "auto"
    max: int = 7200


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """When those whom `notify` names are told of an outage. Seconds; named as Prometheus and Alertmanager name them.

    Attributes:
        repeat_interval: told again after so long while the outage lasts; 0: once only.
        unknown_for: how long a pipeline may be unreadable before that is told.
        keep_firing_for: how long an outage must be over to be resolved; if it comes back sooner it is the same one.
    """

    repeat_interval: int = 14400
    unknown_for: int = 900
    keep_firing_for: int = 300


@dataclass(frozen=True, slots=True)
class Policy:
    """What a pipeline's owners allow. All durations are in seconds.

    `repair`: whether rows that a nightly check found wrong are rewritten at once (automatic), or once a person agreed
    (approved). Removing more than `max_deletes` is asked for either way, unless `approval` is never. `schema_change`: whether
    apply reads a table again by itself (reread) after DDL that events do not carry, or leaves it to a person (stop); one
    of more than `reread_limit` rows is left to a person either way. `report_rows`: whether both rows of the first keys that
    differ are kept beside a report, or the keys alone. `standstill`: a wait for the connector goes on for as long as it
    moves, and is given up once it has not for so long. `set_converter`: whether a recovery may set the
    connector's `replace.null.with.default=false`, for good, where a column needs it. `max_lag`: for how long an
    event may wait in its topic before the sink counts as behind.
    """

    approval: str = "when_destructive"
    approval_timeout: int = 7200
    warn_before_purge: int = 21600
    recover_automatically: bool = False
    max_deletes: Limit = field(default=Limit(1.0, percent=True))
    max_duration: int = 21600
    standstill: int = 600
    max_lag: int = 3600
    publish: str = "all"
    hold: HoldPolicy = field(default=HoldPolicy())
    repair: str = "approved"
    schema_change: str = "reread"
    reread_limit: int = 10_000_000
    report_rows: bool = True
    set_converter: bool = True
    notify: tuple[str, ...] = ()
    alert: AlertPolicy = field(default=AlertPolicy())

    def __post_init__(self) -> None:
        object.__setattr__(self, "notify", tuple(self.notify))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One source + connector + transport + sink. Frozen, by `hash`, for the length of a run."""

    name: str
    source: SourceSpec
    connector: ConnectorSpec
    transport: TransportSpec
    sink: SinkSpec
    spark: SparkSpec = field(default=SparkSpec())
    policy: Policy = field(default=Policy())
    backfill: tuple[BackfillSpec, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "backfill", tuple(self.backfill))

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of the definition."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def sink_table(self, table: str) -> str:
        """The sink's table name for a source table: "orders" for "shop.orders"."""
        return sink_name(table.partition(".")[2] or table)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: durations as seconds, limits as text."""
        value = asdict(self)
        value["source"]["tables"] = list(self.source.tables)
        value["source"]["replicas"] = list(self.source.replicas)
        value["policy"]["max_deletes"] = str(self.policy.max_deletes)
        value["policy"]["notify"] = list(self.policy.notify)
        value["backfill"] = [asdict(spec) for spec in self.backfill]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str) -> Pipeline:
        """The inverse of to_json(); accepts its JSON text too. Raises ConfigError."""
        raw = json.loads(value) if isinstance(value, str) else value
        try:
            return cls(
                name=raw["name"],
                source=SourceSpec(**raw["source"]),
                connector=ConnectorSpec(**raw["connector"]),
                transport=TransportSpec(**raw["transport"]),
                sink=SinkSpec(**raw["sink"]),
                spark=SparkSpec(**raw.get("spark") or {}),
                policy=_policy(raw.get("policy") or {}),
                backfill=tuple(BackfillSpec(**spec) for spec in raw.get("backfill") or ()),
            )
        except (KeyError, TypeError) as error:
            raise ConfigError(f"pipeline definition cannot be read: {error}") from error


def _policy(raw: Mapping[str, Any]) -> Policy:
    value = dict(raw)
    if "max_deletes" in value:
        value["max_deletes"] = Limit.parse(value["max_deletes"])
    if "hold" in value:
        value["hold"] = HoldPolicy(**value["hold"])
    if "alert" in value:
        value["alert"] = AlertPolicy(**{key: parse_duration(length) for key, length in value["alert"].items()})
    for key in ("approval_timeout", "warn_before_purge", "max_duration", "standstill", "max_lag"):
        if key in value:
            value[key] = parse_duration(value[key])
    return Policy(**value)
