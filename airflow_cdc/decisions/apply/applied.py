"""What a stamped commit records about the changes it holds, besides the offsets: the property `cdc.applied`; and a change in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from airflow_cdc.core.errors import MALFORMED, UnknownStateError
from airflow_cdc.core.position import Place
from airflow_cdc.decisions.apply.ddl import Ddl

APPLIED = "cdc.applied"
# A restarted connector sends only its newest statements again.
KEEP_DDL = 50
# Format version of the APPLIED record. The first format had no version number and named places as MySQL does.
FORMAT = 2


class Highest(NamedTuple):
    """The highest applied change of one origin: its place, and the log file in which `pos` is an offset."""

    n: int
    pos: int
    row: int
    log: str
    log_n: int

    @classmethod
    def of(cls, values: Sequence[int | str | None]) -> Highest:
        """From the five values in this order; None is 0, or no name."""
        n, pos, row, log, log_n = values
        return cls(int(n or 0), int(pos or 0), int(row or 0), str(log or ""), int(log_n or 0))


class LastChange(NamedTuple):
    """The last applied change of a partition: its place in the source's log, and when it was committed.

    `log` and `log_n` name the file in which the place's `pos` is an offset; `ts_ms` is in milliseconds since 1970.
    """

    origin: str
    place: Place
    log: str
    log_n: int
    transaction: str | None
    ts_ms: int

    def same_place(self, other: LastChange) -> bool:
        """Whether both are the same change."""
        return self[:-1] == other[:-1]

    def is_older_than(self, other: LastChange) -> bool:
        """An earlier position and an earlier time, in one server's files.

        A rebuilt server restarts its file numbers, and its changes are new, not repeats.
        """
        if self.log != other.log:
            return False
        return (self.log_n, *self.place[1:]) < (other.log_n, *other.place[1:]) and self.ts_ms <= other.ts_ms

    def to_json(self) -> dict[str, object]:
        """Plain JSON."""
        return {**self._asdict(), "place": list(self.place)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LastChange:
        """The inverse of to_json(). Raises one of MALFORMED."""
        n, pos, row = map(int, value["place"])
        return cls(**{**value, "place": (n, pos, row)})


@dataclass(frozen=True, slots=True)
class Applied:
    """What a stamped commit records about its changes, besides the offsets.

    Attributes:
        base: partition → the first offset of this epoch; every earlier record was in the snapshot already.
        high: origin → the highest change applied (tables without a key).
        last: partition → the last change applied from it, used to recognise a repeated range (INV 18).
        snapshots: how many snapshots the connector itself began in the applied range.
        ddl: the newest statements that were judged (Ddl.at), used to recognise a repeat.
        table_id: the source engine's internal table id; TRUNCATE assigns a new one.
        at_ms: when the batch's end offsets were read (epoch milliseconds; compacted topics only); 0: not known.
    """

    base: Mapping[str, int] = field(default_factory=dict)
    high: Mapping[str, Highest] = field(default_factory=dict)
    last: Mapping[str, LastChange] = field(default_factory=dict)
    snapshots: int = 0
    ddl: Sequence[str] = ()
    table_id: str = ""
    at_ms: int = 0

    def to_text(self) -> str:
        """The text for the property APPLIED."""
        last = {p: change.to_json() for p, change in self.last.items()}
        values = {name: getattr(self, name) for name in self.__slots__} | {"last": last, "format": FORMAT}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def judged(self, statements: Sequence[Ddl]) -> Applied:
        """A copy that also remembers these statements."""
        places = dict.fromkeys([*self.ddl, *(one.at for one in statements)])
        return replace(self, ddl=list(places)[-KEEP_DDL:])

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> Applied | None:
        """Read it from a commit's summary; None if absent.

        Raises UnknownStateError if it cannot be read or has another format.
        """
        if APPLIED not in summary:
            return None
        try:
            values = json.loads(summary[APPLIED])
            form = values.pop("format", 1)
            if form != FORMAT:
                raise _of_format(form)
            high = {origin: Highest.of(place) for origin, place in values.pop("high").items()}
            last = {p: LastChange.from_json(change) for p, change in values.pop("last").items()}
            return cls(high=high, last=last, **values)
        except MALFORMED as error:
            raise UnknownStateError(f"{APPLIED} cannot be read: {error}", todo="Recover the table.") from None


def _of_format(form: object) -> UnknownStateError:
    return UnknownStateError(
        f"{APPLIED} is of format {form}, and this version reads format {FORMAT}",
        todo="Recover the table: another version of airflow_cdc wrote it.",
    )


class NotPlainError(ValueError):
    """Something in the records is not the plain change of a row: the jobs of a batch say what it means."""


class PlainChange(NamedTuple):
    """A create, update, delete or tombstone of the table itself, with every value readable; for batches that are too small for Spark.

    The fields are those of the neutral record (spark_apps/events.py): `key` holds the key's values in the key's
    order, `after` those of the mirrored columns, in Arrow's terms (a moment is microseconds since 1970, a date is days).
    `change` is None for a tombstone, `after` for a tombstone and a delete. `before` is the row as it was, where that is
    asked for and the record has it.
    """

    partition: int
    offset: int
    op: str
    key: tuple[object, ...]
    after: tuple[object, ...] | None = None
    change: LastChange | None = None
    defaulted: bool = False
    before: tuple[object, ...] | None = None
