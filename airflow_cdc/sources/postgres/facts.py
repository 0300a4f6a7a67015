"""Facts read from a PostgreSQL server: about itself, its log, slots, publications and the captured tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from airflow_cdc.core.forecast import Margin, PurgeForecast
from airflow_cdc.core.observation import SourceFacts
from airflow_cdc.core.position import Availability, Available, Position
from airflow_cdc.names import split_name
from airflow_cdc.sources.postgres.grants import missing, read_grants
from airflow_cdc.sources.postgres.position import Lsn, PgPosition, postgres_position, server_name
from airflow_cdc.sources.postgres.session import Session
from airflow_cdc.sources.postgres.slot import Slot, SlotForecast, forecast, read_slots
from airflow_cdc.sources.row import Row

_IDENTITY: Final = """
SELECT s.system_identifier::text AS system_id, c.timeline_id AS control_timeline, pg_catalog.pg_is_in_recovery() AS standby,
  CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END::text AS lsn,
  CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL
    ELSE pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END AS file,
  pg_catalog.current_database() AS database, pg_catalog.current_setting('server_version') AS version,
  pg_catalog.current_setting('server_version_num')::int AS number, pg_catalog.clock_timestamp() AS now,
  EXTRACT(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_postmaster_start_time())::float8 AS uptime_s,
  c.redo_lsn::text AS redo, EXTRACT(epoch FROM pg_catalog.clock_timestamp() - c.checkpoint_time)::float8 AS redo_age_s
FROM pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c
"""

_SETTINGS: Final = """
SELECT name, setting, unit FROM pg_catalog.pg_settings WHERE name IN ('wal_level', 'max_wal_senders', 'max_replication_slots',
  'max_slot_wal_keep_size', 'idle_replication_slot_timeout', 'max_wal_size', 'lc_monetary', 'synchronized_standby_slots')
"""

VIA_ROOT: Final = "publish_via_partition_root"
# pg_publication_tables already resolves FOR ALL TABLES, FOR TABLES IN SCHEMA and publish_via_partition_root
_PUBLICATIONS: Final = "SELECT pg_catalog.to_jsonb(p) AS publication FROM pg_catalog.pg_publication p"
_PUBLISHED: Final = "SELECT pg_catalog.to_jsonb(t) AS published FROM pg_catalog.pg_publication_tables t"

_TABLES: Final = """
SELECT n.nspname AS schema, c.relname AS name, c.relkind AS kind, c.relpersistence AS persistence, c.relreplident AS identity,
  c.relrowsecurity AS row_security, c.relispartition AS partition,
  EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) AS has_key,
  EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisreplident) AS has_identity_index,
  EXISTS (SELECT 1 FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class k ON k.oid = h.inhrelid
          WHERE h.inhparent = c.oid AND NOT k.relispartition) AS has_children,
  (SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> '') AS generated,
  (SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attstorage IN ('x', 'e', 'm')) AS toastable,
  (SELECT pg_catalog.md5(pg_catalog.string_agg(
     t.relid::oid::text || ':' || COALESCE(pg_catalog.pg_relation_filenode(t.relid), 0), ',' ORDER BY t.relid::oid))
   FROM pg_catalog.pg_partition_tree(c.oid) t WHERE t.isleaf) AS leaves,
  pg_catalog.pg_relation_filenode(c.oid) AS filenode, c.oid::bigint AS oid
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""


class Identity(StrEnum):
    """Which columns of the before image an event carries (pg_class.relreplident)."""

    DEFAULT = "d"  # the primary key; nothing if there is none
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Which server answered, and where its log ends.

    Attributes:
        lsn: the end of the log; on a standby the end of what it has replayed.
        taken_at: the server's clock, ISO time.
        wal_bytes_s: log written per second since the last checkpoint began; None if unknown.
    """

    system_id: str
    timeline: int
    lsn: Lsn
    version: str
    number: int
    database: str
    standby: bool
    taken_at: str
    uptime_s: float
    wal_bytes_s: float | None = None

    @property
    def name(self) -> str:
        """The server's name in watermarks: system identifier/timeline."""
        return server_name(self.system_id, self.timeline)

    @property
    def position(self) -> PgPosition:
        """The end of its log as a position."""
        return PgPosition(self.lsn, self.timeline, self.system_id)


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication: which operations it publishes for which tables ("schema.table").

    Attributes:
        operations: some of insert, update, delete, truncate.
        via_root: changes of partitions are published as their root's.
        tables: name → its published columns; () if the server's release does not say.
        row_filters: table → its WHERE condition.
    """

    name: str
    operations: frozenset[str]
    via_root: bool = False
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    row_filters: Mapping[str, str] = field(default_factory=dict)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Operations that change rows but are not published."""
        return tuple(name for name in ("insert", "update", "delete") if name not in self.operations)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The properties that determine how a captured table's changes are sent.

    Attributes:
        has_key: it has a primary key.
        generated: its generated columns; the log does not carry them, except stored ones from 18 on if configured.
        toastable: columns whose long values are left out of an update that does not change them.
        has_children: other tables inherit from it; their rows appear in a plain SELECT of it but not in its events.
        generation: a number that TRUNCATE and a rebuild change.
    """

    name: str
    identity: Identity
    has_key: bool
    partitioned: bool = False
    unlogged: bool = False
    row_security: bool = False
    has_children: bool = False
    generated: tuple[str, ...] = ()
    toastable: tuple[str, ...] = ()
    generation: str = ""

    @property
    def tells_rows_apart(self) -> bool:
        """Whether an UPDATE or DELETE can be published. If not, the server rejects the statement itself."""
        return self.identity in (Identity.FULL, Identity.INDEX) or (self.identity is Identity.DEFAULT and self.has_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class PgFacts(SourceFacts):
    """A PostgreSQL server, and what the pipeline's connector needs on it.

    Attributes:
        settings: from pg_settings; sizes in MB, times in seconds.
        wal_senders: the number of running WAL senders, at most `max_wal_senders`.
        slot_name: the slot that the pipeline names; `slot` is None if no slot has that name.
        publication_name: likewise; `publication` is None if it does not exist in this database.
        tables: the captured ones that exist.
        forecast: of the slot.
    """

    log: ServerFacts
    settings: Mapping[str, str] = field(default_factory=dict)
    wal_senders: int = 0
    slot_name: str = ""
    slot: Slot | None = None
    publication_name: str = ""
    publication: Publication | None = None
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    forecast: SlotForecast | None = None

    @property
    def server(self) -> str:
        return f"server {self.log.name}"

    @property
    def log_faults(self) -> Mapping[str, str]:
        level = self.settings.get("wal_level", "logical")
        faults = {} if level == "logical" else {"wal_level": f"{level}, must be logical"}
        if self.publication is None:
            return faults
        filters = {
            f"row filter of {table}": f"{where}, must be none" for table, where in self.publication.row_filters.items()
        }
        left_out = ", ".join(self.publication.left_out)
        published = {f"publication {self.publication.name}": f"leaves out {left_out}"} if left_out else {}
        roots = ", ".join(self.by_partition)
        by_partition = {VIA_ROOT: f"false: changes of {roots} arrive as those of its partitions"} if roots else {}
        return faults | published | filters | by_partition

    @property
    def by_partition(self) -> tuple[str, ...]:
        """Captured partitioned tables whose changes the publication sends under the names of their partitions."""
        if self.publication is None or self.publication.via_root:
            return ()
        return tuple(sorted(one.name for one in self.tables.values() if one.partitioned))

    @property
    def oldest(self) -> str | None:
        return None if self.slot is None or self.slot.restart is None else str(self.slot.restart)

    @property
    def newest(self) -> str:
        return str(self.log.lsn)

    @property
    def more_to_read(self) -> bool:
        return False  # much of the log is not about captured tables, and only a reader can tell which part is

    def available(self, position: Position) -> Available:
        """The one answer to whether a reader at `position` would find every change since."""
        here, slot = postgres_position(position), self.slot
        if not here.comparable(self.log.position):
            return Available(Availability.UNKNOWN, f"{here} is of another server than {self.log.name}")
        if here.lsn > self.log.lsn and not self.log.standby:
            return Available(Availability.NOT_YET, f"the log ends at {self.log.lsn}")
        if slot is None:
            return Available(Availability.LOST, f"slot {self.slot_name!r} does not exist")
        if slot.invalidated:
            return Available(Availability.LOST, f"slot {slot.name!r} was invalidated ({slot.invalidated})")
        for name, lsn in (("begins at", slot.restart), ("was moved to", slot.confirmed)):
            if lsn is not None and here.lsn < lsn:
                return Available(Availability.LOST, f"slot {slot.name!r} {name} {lsn}")
        return Available(Availability.AVAILABLE, f"slot {slot.name!r} holds all after {slot.confirmed}")

    def read_all(self, position: Position) -> bool:
        return postgres_position(position).lsn >= self.log.lsn

    def behind(self, position: Position) -> int | None:  # noqa: ARG002 - LSNs count bytes, not transactions
        return None

    def margin(self, position: Position) -> Margin | None:  # noqa: ARG002 - the slot decides, not the position
        limit = int(self.settings.get("max_slot_wal_keep_size") or -1) * 1024 * 1024
        if self.slot is None or limit <= 0:
            return None
        if self.slot.invalidated:
            return Margin(0, limit)
        return None if self.slot.safe_bytes is None else Margin(max(0, self.slot.safe_bytes), limit)

    def purge_forecast(self, position: Position) -> PurgeForecast | None:  # noqa: ARG002 - the slot decides, not the position
        if self.forecast is None or self.slot is None or self.slot.invalidated:
            return None
        return PurgeForecast(self.forecast.earliest_s, in_newest_file=False, basis=str(self.forecast))

    def unpublished(self) -> tuple[str, ...]:
        """Captured tables whose changes the publication does not send."""
        if self.publication is None:
            return ()
        return tuple(sorted(set(self.tables) - set(self.publication.tables) - set(self.by_partition)))


def read_server(session: Session) -> ServerFacts:
    """Identify the server and read the end of its log. Raises SourceError."""
    row = session.row(_IDENTITY, doing="read the server's identity")
    lsn, redo, age = Lsn.parse(row.text("lsn")), Lsn.parse(row.text("redo")), row.real("redo_age_s")
    # the control file has the timeline of the last checkpoint: right after a promotion that is still the old one
    timeline = int(row.text("file")[:8], 16) if row["file"] else row.number("control_timeline")
    return ServerFacts(
        system_id=row.text("system_id"),
        timeline=timeline,
        lsn=lsn,
        version=row.text("version"),
        number=row.number("number"),
        database=row.text("database"),
        standby=row.flag("standby"),
        taken_at=row.moment("now").isoformat(),
        uptime_s=row.real("uptime_s"),
        wal_bytes_s=(lsn - redo) / age if age > 0 and lsn >= redo else None,
    )


def read_settings(session: Session) -> dict[str, str]:
    """The settings that affect logical decoding; one that the server's release does not have is absent."""
    return {
        row.text("name"): row.text("setting") for row in session.rows(_SETTINGS, doing="read the server's settings")
    }


def read_publications(session: Session, names: Iterable[str]) -> dict[str, Publication]:
    """The publications with these names in this database; one that does not exist is absent."""
    wanted = list(names)
    rows = session.rows(f"{_PUBLICATIONS} WHERE pubname = ANY(%s)", (wanted,), doing="read the publications")
    tables = session.rows(f"{_PUBLISHED} WHERE pubname = ANY(%s)", (wanted,), doing="read what is published")
    published = [row.row("published") for row in tables]
    return {one.name: one for one in (_publication(row.row("publication"), published) for row in rows)}


def _publication(row: Row, published: Sequence[Row]) -> Publication:
    mine = {f"{one['schemaname']}.{one['tablename']}": one for one in published if one["pubname"] == row["pubname"]}
    return Publication(
        name=row.text("pubname"),
        operations=frozenset(name for name in ("insert", "update", "delete", "truncate") if row.get(f"pub{name}")),
        via_root=bool(row.get("pubviaroot")),
        tables={table: one.texts("attnames") if "attnames" in one else () for table, one in mine.items()},
        row_filters={table: one.text("rowfilter") for table, one in mine.items() if one.get("rowfilter")},
    )


def read_tables(session: Session, tables: Iterable[str]) -> dict[str, TableFacts]:
    """The facts that determine how changes of these tables ("schema.table") are sent; missing tables are absent."""
    pairs = [split_name(name) for name in tables]
    args = ([schema for schema, _ in pairs], [name for _, name in pairs])
    rows = session.rows(_TABLES, args, doing="read the captured tables")
    return {f"{row['schema']}.{row['name']}": _table(row) for row in rows}


def _table(row: Row) -> TableFacts:
    return TableFacts(
        name=f"{row['schema']}.{row['name']}",
        identity=Identity(row.text("identity")),
        has_key=row.flag("has_key"),
        partitioned=row["kind"] == "p",
        unlogged=row["persistence"] != "p",
        row_security=row.flag("row_security"),
        has_children=row.flag("has_children"),
        generated=row.texts("generated"),
        toastable=row.texts("toastable"),
        generation=str(row["leaves"]) if row["kind"] == "p" else f"{row['oid']}:{row['filenode']}",
    )


def read_facts(
    session: Session, address: str, *, slot: str = "", publication: str = "", tables: Sequence[str] = ()
) -> PgFacts:
    """What diagnosis needs to know. Runs a few cheap statements and changes nothing. Raises SourceError.

    The end of the log is read last: otherwise a slot could be ahead of it only because of writes in between.
    """
    settings = read_settings(session)
    publications = read_publications(session, [publication] if publication else [])
    captured = read_tables(session, tables)
    slots = read_slots(session)
    senders = session.row("SELECT count(*) AS n FROM pg_catalog.pg_stat_replication", doing="count the WAL senders")
    needs = missing(read_grants(session, tables))
    log = read_server(session)
    mine = slots.get(slot)
    idle = int(settings.get("idle_replication_slot_timeout") or 0)
    return PgFacts(
        version=log.version,
        uptime_s=int(log.uptime_s),
        address=address,
        missing_privileges=needs,
        log=log,
        settings=settings,
        wal_senders=senders.number("n"),
        slot_name=slot,
        slot=mine,
        publication_name=publication,
        publication=publications.get(publication),
        tables=captured,
        forecast=None if mine is None else forecast(mine, log.lsn, log.wal_bytes_s, idle),
    )
