"""The `source` block of Debezium's events: which table a change is of, and where it is in the source's log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from airflow_cdc.events.record import LogPlace, Wires
from airflow_cdc.events.value import Missing, Shape, Wire
from airflow_cdc.sources.postgres.position import postgres_position
from airflow_cdc.sources.postgres.visible import ORIGIN as WAL
from airflow_cdc.sources.postgres.visible import XIDS, Visible

if TYPE_CHECKING:
    from airflow_cdc.events.frame import Standing

_INT, _STRING = Shape(Wire.INT), Shape(Wire.STRING)
_COUNT: Final = Shape(Wire.INT, missing=Missing.ZERO)  # of a number that every event has
_LONG: Final = 2**63
_INTEGER: Final = 2**31
# domain-server-number, as sources/mariadb/position.py names origins
_MARIADB_GTID: Final = re.compile(r"([0-9]+)-[0-9]+-([0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """What one kind of database writes of a change's place.

    Attributes:
        schema: the part that names the table's schema; `table` names the table, and every block has `ts_ms` and `snapshot`.
        parts: the parts that make a place, by name; a dotted one is of the event itself: `transaction.total_order`.
        place: their values, `None` for one that is not there, and the block's ts_ms → the change's place.
        standing: what the parts are of a row of a snapshot that was taken there.
        whole_before: whether before images are complete. A table of PostgreSQL may send only the key of it, the rest as NULL.
    """

    schema: str
    parts: tuple[tuple[str, Shape], ...]
    place: Callable[[Wires, int | None], LogPlace | None]
    standing: Callable[[Standing], Iterable[tuple[str, object]]]
    whole_before: bool = True


def _is_long(number: object) -> TypeGuard[int]:
    return type(number) is int and -_LONG <= number < _LONG


def _long(digits: str) -> int | None:
    """The number that at most 18 ASCII digits write: any of 64 bits that a server counts to."""
    return int(digits) if digits.isdigit() and digits.isascii() and len(digits) < 19 else None


@lru_cache(maxsize=1_000)
def _series(server_id: int, file: str) -> tuple[str, int] | None:
    """A log file's series, and its number. Case: server 1's mysql-bin.000003 is number 3 of 1/mysql-bin."""
    base, dot, digits = file.rpartition(".")
    number = _long(digits)
    return None if not dot or not base or number is None else (f"{server_id}/{base}", number)


def _binlog(
    values: Sequence[Any], ts_ms: int | None, order: Callable[[str], tuple[str, int] | None]
) -> LogPlace | None:
    """`order`: GTID → (origin, number) by which it is ordered. Origins are named as in sources/mysql/position.py."""
    gtid, server_id, file, pos, row = values
    if type(file) is not str:
        return None
    try:
        if not (-_LONG <= pos < _LONG and -_INTEGER <= row < _INTEGER and -_LONG <= server_id < _LONG):
            return None
    except TypeError:  # one is not there, or of another type
        return None
    log = _series(server_id, file)
    if log is None or (gtid is not None and type(gtid) is not str):
        return None
    ordered = log if gtid is None else order(gtid)
    return None if ordered is None else LogPlace(*ordered, pos, row, *log, gtid, ts_ms)


def _of_mysql(gtid: str) -> tuple[str, int] | None:
    """Case: 3e11fa47-…:reports:7 is the seventh of 3e11fa47-…:reports. GTIDs stay as they are: servers write lower case."""
    committer, _, digits = gtid.rpartition(":")
    number = _long(digits)
    return None if committer[:1] in {"", ":"} or number is None else (committer, number)


def _of_mariadb(gtid: str) -> tuple[str, int] | None:
    match = _MARIADB_GTID.fullmatch(gtid)
    number = None if match is None else _long(match[2])
    return None if match is None or number is None else (match[1], number)


def _mysql(values: Wires, ts_ms: int | None) -> LogPlace | None:
    return _binlog(values, ts_ms, _of_mysql)


def _mariadb(values: Wires, ts_ms: int | None) -> LogPlace | None:
    return _binlog(values, ts_ms, _of_mariadb)


def _wal(values: Wires, ts_ms: int | None) -> LogPlace | None:
    """A change is ordered by its transaction id, which decides whether a read view shows it.

    `log_n` is the end of the transaction that was committed before it: the log sends transactions in the order of their commits,
    while their positions in it have none. Rows of one log entry have one position; their number within the transaction
    tells them apart.
    """
    transaction, lsn, sequence, order = values
    if not (_is_long(transaction) and _is_long(lsn)):
        return None
    row = order if type(order) is int and -_INTEGER <= order < _INTEGER else 0
    return LogPlace(WAL, transaction, lsn, row, "wal", _committed_before(sequence), None, ts_ms)


def _committed_before(sequence: object) -> int | None:
    """Case: '["24675000","24676000"]' is 24675000, '[null,"24676000"]' nothing."""
    try:
        first = json.loads(sequence)[0] if type(sequence) is str else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return _long(first) if type(first) is str else None


_BINLOG: Final = (("gtid", _STRING), ("server_id", _COUNT), ("file", _STRING), ("pos", _COUNT), ("row", _COUNT))
_NOT_IN_BINLOG: Final[dict[str, object]] = {
    "server_id": 0,
    "gtid": None,
    "row": 0,
    "thread": None,
    "query": None,
    "sequence": None,
}


def _in_binlog(place: Standing) -> Iterable[tuple[str, object]]:
    """A row of a snapshot has no event of its own, and so no number in one."""
    return (_NOT_IN_BINLOG | {**place.at}).items()


def _at_wal(place: Standing) -> Iterator[tuple[str, object]]:
    """The transaction is the first that the snapshot does not show, as that of a connector's own snapshot is.

    Case: at LSN 100, where 795:799:795 was visible, it is transaction 799, and the sequence [null,"100"].
    """
    lsn = place.at["lsn"]
    yield from (("lsn", lsn), ("sequence", f'[null,"{lsn}"]'), ("xmin", None), ("origin", None), ("origin_lsn", None))
    if snapshot := postgres_position(place.position).snapshot:
        yield "txId", Visible.parse(snapshot).end % XIDS


BLOCKS: Final[Mapping[str, SourceBlock]] = {
    "mysql": SourceBlock("db", _BINLOG, _mysql, _in_binlog),
    "mariadb": SourceBlock("db", _BINLOG, _mariadb, _in_binlog),
    "postgres": SourceBlock(
        "schema",
        (("txId", _INT), ("lsn", _INT), ("sequence", _STRING), ("transaction.total_order", _COUNT)),
        _wal,
        _at_wal,
        whole_before=False,
    ),
}


def time_of(value: object) -> int | None:
    """A commit's time in milliseconds, where there is one."""
    return value if _is_long(value) else None
