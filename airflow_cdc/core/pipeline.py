"""A pipeline as declared in pipelines.yaml: source, connector, transport, sink, Spark, policy."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.limit import Limit
from airflow_cdc.core.settings import (
    CONNECTION,
    DAY,
    DURATION,
    LIMIT,
    NAME,
    TABLE,
    Reader,
    Systems,
    key,
    own_connection,
    settings,
    settings_to_json,
)

E = TypeVar("E")


@settings
class SourceSpec:
    """The server read from, and its captured tables ("schema.table"). A kind of source adds its own keys."""

    kind: str = key("What the source is.")
    conn_id: str = key("Airflow connection of the server that the connector reads.", form=CONNECTION)
    tables: tuple[str, ...] = key(
        "The mirrored tables, as `schema.table`; each becomes `<namespace>.<table>` in the sink.", form=TABLE
    )

    @property
    def replicas(self) -> tuple[str, ...]:
        """Connections of replicas where the connector may read for a while what the source has purged."""
        return ()

    def at(self, endpoint: E) -> E:
        """The connection's endpoint with what this pipeline's own keys add to it."""
        return endpoint


@settings
class ConnectorSpec:
    """The connector: where its interface is, and its name there. A kind of connector adds its own keys."""

    kind: str = key("What the connector is.")
    conn_id: str = key("Airflow connection of the connector's interface.", form=CONNECTION)
    name: str = key("The connector's name there.")


@settings
class TransportSpec:
    """The topics between connector and sink. A kind of transport adds its own keys."""

    kind: str = key("What carries the events.")
    conn_id: str = key("Airflow connection of the brokers.", form=CONNECTION)


@settings
class SinkSpec:
    """Where the mirrored tables are, and who writes them. A kind of sink adds its own keys."""

    kind: str = key("What the sink tables are.")
    namespace: str = key("Namespace of the sink tables.", form=NAME)
    writer: str = key("Who writes the sink tables.", default="cdc_apply", kw_only=True)

    @property
    def where(self) -> str:
        """How messages name the place of the tables: its connection and the namespace, "lake.shop"."""
        return f"{own_connection(self)}.{self.namespace}"


UNUSED = "Not used without a sink."


@settings
class NoSink(SinkSpec):
    """`kind: none`: nobody's tables. The pipeline is diagnosed, watched, held, and its offset moved; no row is."""

    namespace: str = key(UNUSED, default="")
    writer: Literal["nobody"] = key(UNUSED, default="nobody", kw_only=True)

    @property
    def where(self) -> str:
        """How messages name it."""
        return ""


NO_SINK = NoSink("none")


def no_sink(what: str, pipeline: str = "") -> UsageError:
    """The error to raise where `what` needs a sink."""
    return UsageError(
        f"{what} needs a sink, and this pipeline has none",
        where=f"pipeline {pipeline}" if pipeline else "",
        todo="Declare one under `sink` in pipelines.yaml; without one the runbook says what to do by hand.",
    )


@settings
class ControlSpec:
    """Where the pipeline's own state is kept: lease, open recovery, ledger. A kind of store adds its own keys."""

    kind: str = key("Where the pipeline's own state is kept (lease, open recovery, what its runs did).")


def sink_name(table: str) -> str:
    """The sink's name of a source table: its own, unless it has characters that a path or a catalog may not take.

    These become _, and a hash of the whole name keeps two such tables apart: "my table" is "my_table_0ab2f1c4".
    """
    allowed = re.sub(r"[^\w$-]", "_", table)
    return table if allowed == table else f"{allowed}_{hashlib.sha256(table.encode()).hexdigest()[:8]}"


@settings
class SparkSpec:
    """The Airflow connection of the Spark cluster."""

    conn_id: str = key("Airflow connection (`spark`) of the Spark master.", form=CONNECTION, default="spark_default")


@settings
class BackfillSpec:
    """How a table is cut into intervals of a day, for `cdc_backfill__<pipeline>`.

    Attributes:
        by: the column. Alone: a DATE, DATETIME or TIMESTAMP (UTC) that lies in the interval.
        format: the column holds the interval's day, written so (strftime): a partition.
        step: the interval has `step` keys, counted from 0 at the day `origin` (ISO date): a key range.
    """

    table: str = key("The table, one of `source.tables`.", form=TABLE)
    by: str = key("The column that says to which day a row belongs. Alone: a DATE, DATETIME or TIMESTAMP (UTC).")
    format: str = key("The column holds the day's name, written so (strftime), such as `%Y%m%d`.", default="")
    step: int = key("A day has so many keys, counted from 0 at `origin`.", default=0)
    origin: str = key("The day of key 0, as 2026-01-31.", form=DAY, default="")

    def __post_init__(self) -> None:
        if bool(self.step) != bool(self.origin) or (self.step and self.format):
            raise ConfigError(
                f"of {self.table}: `step` and `origin` belong together, and not with `format`",
                todo="Write {table, by}, {table, by, format} or {table, by, step, origin}.",
            )


Approval: TypeAlias = Literal["always", "when_destructive", "never"]
Repair: TypeAlias = Literal["approved", "automatic"]


@settings
class HoldPolicy:
    """Whether to hold the source's log during a recovery, and for how many seconds at most."""

    mode: Literal["auto", "required", "off"] = key(
        "Whether a recovery keeps the source's log from being purged meanwhile: where it can, always, or never.",
        default="auto",
    )
    max: int = key("Let go of the log after so long, however far the recovery is.", form=DURATION, default=7200)


@settings
class AlertPolicy:
    """When those whom `notify` names are told of an outage. Seconds; named as Prometheus and Alertmanager name them.

    `repeat_interval` 0: told once only. An outage that comes back within `keep_firing_for` is the same one.
    """

    repeat_interval: int = key("Tell again of an outage that lasts so long.", form=DURATION, default=14400)
    unknown_for: int = key("Tell of a pipeline that could not be read for so long.", form=DURATION, default=900)
    keep_firing_for: int = key("An outage is over once nothing was wrong for so long.", form=DURATION, default=300)


@settings
class MaintenancePolicy:
    """What `cdc_maintain__<pipeline>` does to the sink tables. `expire_after` in seconds."""

    compact: bool = key("Write small files together, and files anew of which much is deleted.", default=True)
    small_files: int = key("Compact where there are so many small files, or so many deletes of one file.", default=10)
    expire_after: int = key(
        "Drop versions of a table that are older than this: nobody can read them any more.",
        form=DURATION,
        default=30 * 86400,
    )


@settings
class Policy:
    """What a pipeline's owners allow. All durations are in seconds.

    Removing more than `max_deletes` is asked for whatever `repair` says, unless `approval` is never. A table of more
    than `reread_limit` rows is left to a person whatever `schema_change` says.
    """

    approval: Approval = key("When a person is asked before anything is changed.", default="when_destructive")
    approval_timeout: int = key("No answer within this time is a Reject.", form=DURATION, default=7200)
    warn_before_purge: int = key(
        "Warn when the stored position may be purged in less than this.", form=DURATION, default=21600
    )
    recover_automatically: bool = key("Start a recovery as soon as a lost position is seen.", default=False)
    max_deletes: Limit = key(
        "Removing more of a sink table's rows than this is destructive.", form=LIMIT, default=Limit(1.0, percent=True)
    )
    max_duration: int = key(
        "How long reading the source may take, where it is not known from before.", form=DURATION, default=21600
    )
    max_lag: int = key(
        "An event that waits in its topic for so long means that the sink is behind.", form=DURATION, default=3600
    )
    standstill: int = key("Give up waiting for a connector that has not moved for so long.", form=DURATION, default=600)
    publish: Literal["all", "each"] = key(
        "Publish nothing before all tables are verified, or each table as soon as it is.", default="all"
    )
    hold: HoldPolicy = key("Keeping the source's log during a recovery.", default=HoldPolicy())
    repair: Repair = key(
        "Whether a person is asked before rows that a night found wrong are rewritten.", default="approved"
    )
    schema_change: Literal["reread", "stop"] = key(
        "After DDL that events do not carry: read the table again by itself, or leave it to a person.", default="reread"
    )
    reread_limit: int = key("A table of more rows than this is not read again by itself.", default=10_000_000)
    maintenance: MaintenancePolicy = key("Tidying up the sink tables.", default=MaintenancePolicy())
    report_rows: bool = key(
        "Keep both rows of the first keys that differ beside a report, or the keys alone.", default=True
    )
    set_converter: bool = key(
        "Let a recovery set `replace.null.with.default=false` on the connector, for good, where a column needs it.",
        default=True,
    )
    notify: tuple[str, ...] = key(
        'Who is told: ids of connections (Slack, PagerDuty, SMTP, Apprise, or webhooks that take `{"text": …}`).',
        default=(),
    )
    alert: AlertPolicy = key(
        "When people are told of an outage again, and of what cannot be read.", default=AlertPolicy()
    )


_FOR_PEOPLE = frozenset({"owner", "tags"})


@settings
class Pipeline:
    """One source + connector + transport + sink. Frozen, by `hash`, for the length of a run.

    Each part is of the settings class of its kind.
    """

    name: str
    source: SourceSpec = key("The server that is mirrored.", wing="sources")
    connector: ConnectorSpec = key("What reads the source's log.", wing="connectors")
    transport: TransportSpec = key("The topics between connector and sink.", wing="transports")
    sink: SinkSpec = key(
        "The tables that mirror the source; left out: a pipeline without one.", wing="sinks", default=NO_SINK
    )
    spark: SparkSpec = key("Where Spark runs.", default=SparkSpec())
    policy: Policy = key("What the pipeline's owners allow.", default=Policy())
    backfill: tuple[BackfillSpec, ...] = key(
        "How `cdc_backfill__<pipeline>` cuts tables into days: one such mapping, or a list of them.",
        alone=True,
        default=(),
    )
    control: ControlSpec | None = key(
        "Where the pipeline's own state is kept; left out: in its sink.", wing="controls", default=None
    )
    owner: str = key("Who answers for it, as the page shows and filters it: a team or a person.", default="")
    tags: tuple[str, ...] = key("Words by which the page filters pipelines.", default=())

    @property
    def has_sink(self) -> bool:
        """Whether there are tables to recover, verify and apply changes to."""
        return self.sink != NO_SINK

    def check_sink(self, what: str) -> None:
        """Raises UsageError unless there is a sink; `what` needs one."""
        if not self.has_sink:
            raise no_sink(what, self.name)

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of the definition, without what only people read: a new owner ends no recovery."""
        meaning = {name: value for name, value in self.to_json().items() if name not in _FOR_PEOPLE}
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def sink_table(self, table: str) -> str:
        """The sink's table name for a source table: "orders" for "shop.orders"."""
        return sink_name(table.partition(".")[2] or table)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: durations as seconds, limits as text."""
        return settings_to_json(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str, systems: Systems) -> Pipeline:
        """The inverse of to_json(); accepts its JSON text too. Raises ConfigError."""
        raw = json.loads(value) if isinstance(value, str) else value
        if "name" not in raw:
            raise ConfigError("pipeline definition cannot be read: it has no name")
        reader = Reader(systems)
        pipeline = reader.settings(cls, raw, name=raw["name"])
        if pipeline is None:
            first = reader.faults[0]
            raise ConfigError(f"pipeline definition cannot be read: {first.key} {first.what}", todo=first.todo)
        return pipeline
