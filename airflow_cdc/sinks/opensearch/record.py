"""What is known about an index of ours beside its documents: its columns, and the commits that wrote it.

OpenSearch has no transactions. A commit here is an entry in the index's record, added after the documents were written
and only if nobody else added one meanwhile. A job that dies between the two leaves documents without a commit; the next
one writes the same versions again, which changes nothing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeVar

from opensearchpy.exceptions import ConflictError, NotFoundError

from airflow_cdc.answers import explained
from airflow_cdc.core.errors import MALFORMED, StaleHeadError, UnknownStateError
from airflow_cdc.core.position import JsonObject
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.sinks.opensearch.indexes import RECORDS
from airflow_cdc.sinks.opensearch.session import Session

T = TypeVar("T")
Columns = tuple[tuple[str, str], ...]

# Commits kept in a record: enough to see what happened lately; the newest stamped one is kept anyway.
KEPT: Final = 20
_TRIES: Final = 5
_MAPPING: Final = {"mappings": {"dynamic": False}, "settings": {"number_of_shards": 1, "auto_expand_replicas": "0-1"}}


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: its version (a random number), time in unix seconds, rows after it, and its summary."""

    version: int
    at: float
    rows: int
    summary: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def stamp(self) -> Stamp | None:
        """The stamp in the summary."""
        return Stamp.from_summary(self.summary, self.version)

    @property
    def ledger(self) -> ChunkLedger | None:
        """Which chunks of the source the index holds; None if not recorded."""
        return ChunkLedger.from_summary(self.summary)


@dataclass(frozen=True, slots=True)
class Record:
    """An index of a table.

    Attributes:
        label: the try that it was made by.
        base_index, base_version: what the table's alias led to then, and its version. "" and 0: nothing.
        before: the base's newest stamped commit and its newest one.
        columns: (name, Spark SQL type) of its documents' fields. base_columns: those of the base.
        properties: such as the definition of the source table.
        copied: the base's documents were copied into it.
        successor: the index that is taking the alias over from it, or has done so.
        since: when it was made, in unix seconds.
    """

    index: str
    namespace: str
    table: str
    label: str
    base_index: str = ""
    base_version: int = 0
    before: tuple[Commit, ...] = ()
    base_columns: Columns = ()
    columns: Columns = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    copied: bool = False
    successor: str = ""
    since: float = 0.0
    commits: tuple[Commit, ...] = ()

    @property
    def version(self) -> int:
        """The newest commit's version; the base's if nothing was committed."""
        return self.commits[-1].version if self.commits else self.base_version

    @property
    def empty(self) -> bool:
        """Whether it holds nothing of its own yet: reading it means reading its base."""
        return bool(self.base_index) and not self.commits and not self.copied

    @property
    def readable(self) -> str:
        """The index that holds its rows."""
        return self.base_index if self.empty else self.index

    @property
    def stamped(self) -> Commit | None:
        """The newest commit with a stamp, of its own or of its base."""
        return next((commit for commit in reversed((*self.before, *self.commits)) if commit.stamp is not None), None)

    def commit(self, version: int) -> Commit | None:
        """The commit with that version."""
        return next((commit for commit in (*self.commits, *self.before) if commit.version == version), None)

    def staged(self, label: str, index: str) -> Record:
        """The record of a new index that is to follow this one."""
        newest, stamped = self.commits[-1:], self.stamped
        before = newest if stamped is None or stamped in newest else (stamped, *newest)
        return Record(
            index, self.namespace, self.table, label, self.index, self.version, before, self.columns, self.columns,
            self.properties, since=time.time(),
        )  # fmt: skip

    def with_commit(self, rows: int, summary: Mapping[str, str]) -> Record:
        """A copy with one more commit."""
        added = Commit(secrets.randbits(62) + 1, time.time(), rows, dict(summary))
        commits = (*self.commits, added)
        old, new = commits[:-KEPT], commits[-KEPT:]
        stamped = self.stamped
        keep = () if stamped is None or stamped in new or added.stamp is not None else (stamped,)
        return replace(self, commits=(*(one for one in keep if one in old), *new))

    def to_json(self) -> JsonObject:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Record:
        """The inverse of `to_json`. Raises UnknownStateError for anything else."""
        try:
            columns = {key: tuple((str(a), str(b)) for a, b in value[key]) for key in ("columns", "base_columns")}
            commits = {key: tuple(Commit(**one) for one in value[key]) for key in ("commits", "before")}
            return cls(**{**value, **columns, **commits})
        except MALFORMED as error:
            raise UnknownStateError(
                f"the record of index {value.get('index')} cannot be read: {error}",
                where=f"index {RECORDS}",
                todo="Restore that record from a snapshot of the cluster, or run a recovery.",
            ) from None


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as it was read: a change of it fails if it changed since."""

    record: Record
    seq_no: int
    primary_term: int


@explained(UnknownStateError, "OpenSearch")
class Records:
    """The records of all our indexes, in an index of their own; a record's id is its index's name."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(self, index: str) -> Seen | None:
        """The record of an index; None if there is none."""
        with self._session.asked("read the record", f"index {index}") as client:
            answer = _or_none(lambda: client.get(index=RECORDS, id=index))
        if answer is None:
            return None
        return Seen(Record.from_json(answer["_source"]), answer["_seq_no"], answer["_primary_term"])

    def see(self, index: str) -> Seen:
        """The record of an index. Raises UnknownStateError if there is none."""
        seen = self.find(index)
        if seen is None:
            raise UnknownStateError(
                f"index {index} has no record of what was written to it",
                where=f"index {RECORDS}",
                todo="Recover the table (full_snapshot): that makes a new index.",
            )
        return seen

    def of(self, indexes: Sequence[str]) -> tuple[Record, ...]:
        """The records of these indexes, as far as they exist."""
        if not indexes or not self._exists():
            return ()
        with self._session.asked("read the records") as client:
            answer = client.mget(index=RECORDS, body={"ids": list(indexes)})
        return tuple(Record.from_json(doc["_source"]) for doc in answer["docs"] if doc.get("found"))

    def create(self, record: Record) -> None:
        """Store a new record; one that exists stays."""
        self._ensure()
        with self._session.asked("write the record", f"index {record.index}") as client:
            try:
                client.create(index=RECORDS, id=record.index, body=record.to_json())
            except ConflictError:
                return

    def swap(self, seen: Seen, record: Record) -> None:
        """Store a changed record, unless it changed since it was seen: StaleHeadError."""
        with self._session.asked("write the record", f"index {record.index}") as client:
            try:
                client.index(
                    index=RECORDS,
                    id=record.index,
                    body=record.to_json(),
                    params={"if_seq_no": seen.seq_no, "if_primary_term": seen.primary_term},
                )
            except ConflictError:
                raise StaleHeadError(
                    "another writer committed meanwhile", where=f"index {record.index}", todo="Run the job again."
                ) from None

    def change(self, index: str, change: Callable[[Record], Record]) -> Record:
        """Apply a change that does not depend on the commits, whoever else writes."""
        for left in reversed(range(_TRIES)):
            seen = self.see(index)
            record = change(seen.record)
            try:
                if record != seen.record:
                    self.swap(seen, record)
            except StaleHeadError:
                if not left:
                    raise
            else:
                return record
        raise AssertionError("unreachable")

    def delete(self, index: str) -> None:
        """Remove a record. Safe to repeat."""
        with self._session.asked("remove the record", f"index {index}") as client:
            _or_none(lambda: client.delete(index=RECORDS, id=index))

    def _exists(self) -> bool:
        with self._session.asked("look for the records") as client:
            return bool(client.indices.exists(index=RECORDS))

    def _ensure(self) -> None:
        ensure_index(self._session, RECORDS, _MAPPING)


def ensure_index(session: Session, name: str, body: Mapping[str, object]) -> bool:
    """Create an index unless it exists. Returns whether it was created."""
    with session.asked("create the index", f"index {name}") as client:
        if client.indices.exists(index=name):
            return False
        answer = client.indices.create(index=name, body=dict(body), params={"ignore": 400})
        if "error" not in answer:
            return True
        if answer["error"]["type"] == "resource_already_exists_exception":
            return False
    raise UnknownStateError(
        f"the index cannot be created: {answer['error']['reason']}",
        where=f"index {name}",
        todo="See to what the cluster says, and let our user create indices.",
    )


def _or_none(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except NotFoundError:
        return None
