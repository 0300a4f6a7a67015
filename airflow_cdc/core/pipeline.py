"""A pipeline as declared in pipelines.yaml: source, connector, transport, sink, Spark, policy."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias, TypeVar

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import ConfigError, UsageError
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
    """The source server and its captured tables ("schema.table"). A kind of source adds its own keys."""

    kind: str = key("What the source is.")
    conn_id: str = key("Airflow connection of the server that the connector reads.", form=CONNECTION)
    tables: tuple[str, ...] = key(
        "The mirrored tables, as `schema.table`; each becomes `<namespace>.<table>` in the sink.", form=TABLE
    )

    @property
    def replicas(self) -> tuple[str, ...]:
        """Connections of replicas from which the connector may read for a while what the source has purged."""
        return ()

    def at(self, endpoint: E) -> E:
        """The connection's endpoint with what this pipeline's own keys add to it."""
        return endpoint


@settings
class ConnectorSpec:
    """The connector: the connection to its interface, and its name there. A kind of connector adds its own keys."""

    kind: str = key("What the connector is.")
    conn_id: str = key("Airflow connection of the connector's interface.", form=CONNECTION)
    name: str = key("The connector's name there.")

    def at(self, endpoint: E) -> E:
        """The connection's endpoint with what this pipeline's own keys add to it."""
        return endpoint


@settings
class TransportSpec:
    """The topics between connector and sink. A kind of transport adds its own keys."""

    kind: str = key("What carries the events.")
    conn_id: str = key("Airflow connection of the brokers.", form=CONNECTION)

    @property
    def schemas_conn_id(self) -> str:
        """The Airflow connection of the schema registry; "" if none is named."""
        return ""

    def at(self, endpoint: E) -> E:
        """The connection's endpoint with what this pipeline's own keys add to it."""
        return endpoint


class Writer(StrEnum):
    """Who writes the sink tables: our apply; the connector's own job; a Kafka Connect sink connector; nobody we know."""

    CDC_APPLY = "cdc_apply"
    CONNECTOR = "connector"
    CONNECT_SINK = "connect_sink"
    CONSUMERS = "consumers"


class Corrected(StrEnum):
    """How a recovery puts the sink tables right.

    STAGED: their rows are read into stages, and published once proven. BEFORE_START: published before the connector, which
    writes the tables itself, starts again (ADR 0015). THROUGH_TOPICS: what differs is written into the topics while the
    connector is stopped, and whoever writes the tables applies it (INV 23, 47).
    """

    STAGED = "staged"
    BEFORE_START = "before_start"
    THROUGH_TOPICS = "through_topics"


_CORRECTED: Final[Mapping[str, Corrected]] = {
    Writer.CONNECTOR: Corrected.BEFORE_START,
    Writer.CONNECT_SINK: Corrected.THROUGH_TOPICS,
    Writer.CONSUMERS: Corrected.THROUGH_TOPICS,
}
# why events are not applied to tables that are corrected so
_NOT_APPLIED: Final[Mapping[Corrected, str]] = {
    Corrected.BEFORE_START: "events that can be read again, and this connector writes the tables itself",
    Corrected.THROUGH_TOPICS: "tables that we write, and others write these from the topics",
}


@settings
class SinkSpec:
    """Where the mirrored tables are, and who writes them. A kind of sink adds its own keys."""

    kind: str = key("What the sink tables are.")
    namespace: str = key("Namespace of the sink tables.", form=NAME)
    writer: str = key("Who writes the sink tables.", default="cdc_apply", kw_only=True)

    @property
    def where(self) -> str:
        """How messages name the place of the tables: connection and namespace, "lake.shop"."""
        return f"{own_connection(self)}.{self.namespace}"

    @property
    def read_as(self) -> str:
        """The kind of source as which the tables are read; "": the sink's own client reads them."""
        return ""

    @property
    def feeder(self) -> str:
        """The sink connector that fills the tables; "": there is none."""
        return ""

    def at(self, endpoint: E) -> E:
        """The connection's endpoint with what this pipeline's own keys add to it."""
        return endpoint


UNUSED = "Not used without a sink."


@settings
class NoSink(SinkSpec):
    """`kind: none`: no tables. Such a pipeline can be diagnosed, watched and held, and its offset can be moved."""

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
        todo="Declare one under `sink` in pipelines.yaml. The runbook says what to do by hand without one.",
    )


@settings
class ControlSpec:
    """The store of the pipeline's own state: lease, open recovery, ledger. A kind of store adds its own keys."""

    kind: str = key("Where the pipeline's own state is stored (lease, open recovery, ledger).")


def sink_name(table: str) -> str:
    """The sink's name for a source table: the same name, unless it has characters that a path or a catalog may refuse.

    These become _, and a hash of the whole name distinguishes such tables: "my table" becomes "my_table_0ab2f1c4".
    """
    allowed = re.sub(r"[^\w$-]", "_", table)
    return table if allowed == table else f"{allowed}_{hashlib.sha256(table.encode()).hexdigest()[:8]}"


@settings
class SparkSpec:
    """The Airflow connection of the Spark cluster, and the environment of the drivers."""

    conn_id: str = key("Airflow connection (`spark`) of the Spark master.", form=CONNECTION, default="spark_default")
    mode: Literal["classic", "connect"] = key("`connect`: on a Spark Connect server; experimental.", default="classic")
    python: str = key(
        "Path of the Python of another environment: its Spark runs the drivers, in its environment. Only with a `local`"
        " master. Without it: Airflow's own.",
        default="",
    )
    jars: tuple[str, ...] = key(
        "With `python`: paths of the jars for that Spark. `[cdc] spark_jars` and `spark_packages` are not used then.",
        default=(),
    )

    def __post_init__(self) -> None:
        if self.python and not self.python.startswith("/"):
            raise ConfigError("is not an absolute path", where="python", todo="Write it like /opt/spark/bin/python.")
        if self.jars and not self.python:
            raise ConfigError(
                "is only used with spark.python", where="jars", todo="Set [cdc] spark_jars, or name spark.python, too."
            )


@settings
class ApplySpec:
    """How `cdc_apply__<pipeline>` runs. `lasts` in seconds."""

    mode: Literal["scheduled", "continuous"] = key(
        "`scheduled`: each run applies what waits, by `[cdc] apply_schedule`; `continuous`: one driver stays and applies"
        " batch after batch, for changes that have to be readable within seconds.",
        default="scheduled",
    )
    lasts: int = key(
        "With `continuous`: after this time a run ends, and the next one begins.", form=DURATION, default=3600
    )

    @property
    def continuous(self) -> bool:
        """Whether a run applies one batch after another."""
        return self.mode == "continuous"


@settings
class AirflowSpec:
    """How Airflow runs the tasks of the pipeline's own DAGs. `timeout` in seconds."""

    pool: str = key("Pool of the tasks.", default="default_pool")
    pool_slots: int = key("Slots that each task takes in the pool.", default=1)
    queue: str = key("Queue of the tasks, for executors with queues; by default Airflow's own.", default="")
    executor: str = key("Executor of the tasks, if Airflow has several; by default the first.", default="")
    pod_template: str = key(
        "File with the pod template of the tasks, for the KubernetesExecutor; by default Airflow's own.", default=""
    )
    timeout: int = key("End a task that runs for longer than this; 0: never.", form=DURATION, default=0)
    retries: int = key("How often a failed task is tried again.", default=0)
    own_dags: bool = key("Recovered by `cdc_recovery__<name>` and so on, and by no shared DAG.", default=False)

    def __post_init__(self) -> None:
        if self.pool_slots < 1:
            raise ConfigError("pool_slots is 0", todo="Write 1 or more, or leave it out.")


@settings
class BackfillSpec:
    """How a table is cut into intervals of a day, for `cdc_backfill__<pipeline>`.

    Attributes:
        by: the column. Without the other keys: a DATE, DATETIME or TIMESTAMP (UTC) whose value is in the interval.
        format: the column holds the interval's day in this strftime format: a partition.
        step: the interval has `step` keys, counted from 0 at the day `origin` (ISO date): a key range.
    """

    table: str = key("The table, one of `source.tables`.", form=TABLE)
    by: str = key(
        "The column that says to which day a row belongs. Without `format` or `step` it must be a DATE, DATETIME or TIMESTAMP (UTC)."
    )
    format: str = key("The strftime format in which the column holds the day, such as `%Y%m%d`.", default="")
    step: int = key("Number of keys per day, counted from 0 at `origin`.", default=0)
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
        "Whether a recovery prevents the source from purging its log: if possible, always, or never.",
        default="auto",
    )
    max: int = key("Release the log after this time, however far the recovery is.", form=DURATION, default=7200)


@settings
class ThrottlePolicy:
    """How busy the source may be while its tables are read. `replica_lag` in seconds; 0: no limit."""

    connections: int = key(
        "The maximum number of connections that read tables at once, in a recovery, a repair or a comparison; 0: no limit.",
        default=0,
    )
    threads_running: int = key(
        "Wait while the source executes more statements than this at a time, the reader's own included; 0: no limit.",
        default=0,
    )
    replica_lag: int = key(
        "Wait while the source, if it is a replica itself, is further behind than this; 0: no limit.",
        form=DURATION,
        default=0,
    )

    @property
    def waits(self) -> bool:
        """Whether the source has to be asked before it is read."""
        return bool(self.threads_running or self.replica_lag)


@settings
class AlertPolicy:
    """When the connections in `notify` are alerted to an outage. In seconds; named as in Prometheus and Alertmanager.

    `repeat_interval` 0: alert once only. A problem that returns within `keep_firing_for` is the same outage.
    """

    repeat_interval: int = key("Alert again when an outage has lasted this long.", form=DURATION, default=14400)
    unknown_for: int = key("Alert when a pipeline could not be read for this long.", form=DURATION, default=900)
    keep_firing_for: int = key(
        "An outage is over once the problem has been gone for this long.", form=DURATION, default=300
    )


@settings
class MaintenancePolicy:
    """What `cdc_maintain__<pipeline>` does to the sink tables. `expire_after` in seconds."""

    compact: bool = key("Compact small files, and files in which many rows are deleted.", default=True)
    small_files: int = key(
        "Compact when there are this many small files, or this many deletes in one file.", default=10
    )
    expire_after: int = key(
        "Drop versions of a table, and documents of deleted rows, that are older than this; such versions can no longer be read.",
        form=DURATION,
        default=30 * 86400,
    )


@settings
class Policy:
    """What a pipeline's owners allow. All durations are in seconds.

    Removing more than `max_deletes` always needs approval, unless `approval` is never. A table of more
    than `reread_limit` rows is never re-read automatically, whatever `schema_change` says.
    """

    approval: Approval = key("When a person must approve before anything is changed.", default="when_destructive")
    approval_timeout: int = key("No answer within this time counts as Reject.", form=DURATION, default=7200)
    warn_before_purge: int = key(
        "Warn when the stored position may be purged sooner than this.", form=DURATION, default=21600
    )
    recover_automatically: bool = key("Start a recovery as soon as a lost position is detected.", default=False)
    max_deletes: Limit = key(
        "Removing more of a sink table's rows than this is destructive.", form=LIMIT, default=Limit(1.0, percent=True)
    )
    max_duration: int = key(
        "A recovery that reads the source for longer than this is ended; also the estimate until one has been timed.",
        form=DURATION,
        default=21600,
    )
    max_lag: int = key(
        "If an event waits in its topic for longer than this, the sink is behind.", form=DURATION, default=3600
    )
    standstill: int = key(
        "Stop waiting for a connector that has made no progress for this long.", form=DURATION, default=600
    )
    publish: Literal["all", "each"] = key(
        "`all`: publish no table before all are verified; `each`: publish each table as soon as it is.", default="all"
    )
    hold: HoldPolicy = key("Holding the source's log during a recovery.", default=HoldPolicy())
    throttle: ThrottlePolicy = key("What reading the source may cost it.", default=ThrottlePolicy())
    repair: Repair = key(
        "Whether a person must approve before rows that the nightly check found wrong are rewritten.",
        default="approved",
    )
    schema_change: Literal["reread", "stop"] = key(
        "After DDL that changes rows without events: `reread` re-reads the table automatically, `stop` leaves it to a person.",
        default="reread",
    )
    reread_limit: int = key("Tables with more rows than this are not re-read automatically.", default=10_000_000)
    maintenance: MaintenancePolicy = key("Maintenance of the sink tables.", default=MaintenancePolicy())
    report_rows: bool = key(
        "Whether reports include both rows of the first differing keys, or only the keys.", default=True
    )
    set_converter: bool = key(
        "Let a recovery permanently set `replace.null.with.default=false` on the connector if a column needs it.",
        default=True,
    )
    notify: tuple[str, ...] = key(
        'Whom to alert: ids of connections (Slack, PagerDuty, SMTP, Apprise, or webhooks that accept `{"text": …}`).',
        default=(),
    )
    alert: AlertPolicy = key(
        "When to alert about an outage again, and about a pipeline that cannot be read.", default=AlertPolicy()
    )


_NOT_MEANING = frozenset({"owner", "tags", "airflow"})


@settings
class Pipeline:
    """One source, connector, transport and sink. A run checks by `hash` that it does not change while the run lasts.

    Each part is an instance of the settings class of its kind.
    """

    name: str
    source: SourceSpec = key("The server that is mirrored.", wing="sources")
    connector: ConnectorSpec = key("What reads the source's log.", wing="connectors")
    transport: TransportSpec = key("The topics between connector and sink.", wing="transports")
    sink: SinkSpec = key(
        "The tables that mirror the source; leave it out for a pipeline without a sink.", wing="sinks", default=NO_SINK
    )
    spark: SparkSpec = key("Where Spark runs.", default=SparkSpec())
    apply: ApplySpec = key("How changes reach the sink tables.", default=ApplySpec())
    policy: Policy = key("What the pipeline's owners allow.", default=Policy())
    backfill: tuple[BackfillSpec, ...] = key(
        "How `cdc_backfill__<pipeline>` divides tables into days: a mapping, or a list of mappings.",
        alone=True,
        default=(),
    )
    control: ControlSpec | None = key(
        "Where the pipeline's own state is stored; by default in its sink.", wing="controls", default=None
    )
    airflow: AirflowSpec = key("How Airflow runs the tasks of the pipeline's own DAGs.", default=AirflowSpec())
    owner: str = key(
        "The team or person responsible: the owner of the pipeline's own DAGs; the page can filter by it.", default=""
    )
    tags: tuple[str, ...] = key("Words by which the page and Airflow's list of DAGs can filter pipelines.", default=())

    @property
    def has_sink(self) -> bool:
        """Whether there are tables to recover, verify and apply changes to."""
        return self.sink != NO_SINK

    @property
    def is_applied(self) -> bool:
        """Whether we write its tables from events."""
        return self.sink.writer == Writer.CDC_APPLY

    @property
    def corrected(self) -> Corrected:
        """How a recovery puts its tables right."""
        return _CORRECTED.get(self.sink.writer, Corrected.STAGED)

    def check_applied(self, what: str) -> None:
        """Raise UsageError unless there are tables that we write, from events that can be read again, which `what` needs."""
        self.check_sink(what)
        if self.is_applied:
            return
        fault = _NOT_APPLIED[self.corrected]
        raise UsageError(
            f"{what} needs {fault}",
            where=f"pipeline {self.name}",
            todo=f"To read the tables again: airflow cdc recover {self.name} --strategy full_snapshot.",
        )

    def check_sink(self, what: str) -> None:
        """Raise UsageError unless there is a sink, which `what` needs."""
        if not self.has_sink:
            raise no_sink(what, self.name)

    @property
    def hash(self) -> str:
        """sha256 of the definition's canonical JSON, without owner, tags and `airflow`: a new owner ends no recovery."""
        meaning = {name: value for name, value in self.to_json().items() if name not in _NOT_MEANING}
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def sink_table(self, table: str) -> str:
        """The sink's table name for a source table: "orders" for "shop.orders"."""
        return sink_name(table.partition(".")[2] or table)

    def to_json(self) -> dict[str, object]:
        """Plain JSON: durations as seconds, limits as text."""
        return settings_to_json(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object] | str, systems: Systems) -> Pipeline:
        """The inverse of to_json(); accepts its JSON text too. Raises ConfigError."""
        try:
            raw = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"pipeline definition cannot be read: {error}") from None
        if not isinstance(raw, Mapping) or "name" not in raw:
            raise ConfigError("pipeline definition cannot be read: it has no name")
        reader = Reader(systems)
        pipeline = reader.settings(cls, raw, name=raw["name"])
        if pipeline is None:
            first = reader.faults[0]
            raise ConfigError(f"pipeline definition cannot be read: {first.key} {first.what}", todo=first.todo)
        return pipeline
