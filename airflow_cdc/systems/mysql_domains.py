"""What a MariaDB server says of its GTIDs, by statements that change nothing and need no right of their own."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.mariadb_gtid import MariaDbPosition, MariaDbState
from airflow_cdc.core.observation import BinlogFile, DomainFacts
from airflow_cdc.systems.mysql_session import Session

# the head of a file says what stands before it; only this much of it is read
_HEAD = 4


def domain_facts(session: Session, files: Sequence[BinlogFile]) -> DomainFacts:
    """What was logged, and what of it no file holds any more. `files` not empty. Raises SourceError.

    The oldest file may be purged between the list and the look at it: then nothing is known this time.
    """
    row = session.row("SELECT @@GLOBAL.gtid_binlog_state AS state", doing="read gtid_binlog_state")
    purged = _begins(session, files[0].name)
    if purged is None:
        raise SourceError(
            f"{files[0].name} was listed, and is gone or unreadable now", where=session.where, todo="Look again."
        )
    return DomainFacts(MariaDbState.parse(row["state"] or ""), purged)


def places_around(
    session: Session, file: str, files: Sequence[BinlogFile]
) -> tuple[MariaDbPosition, MariaDbPosition] | None:
    """The places at which a file begins and ends; None if it is not listed, or was purged meanwhile."""
    names = [entry.name for entry in files]
    if file not in names:
        return None
    begins = _begins(session, file)
    newest = file == names[-1]
    ends = _now(session) if newest else _begins(session, names[names.index(file) + 1])
    return None if begins is None or ends is None else (begins, ends)


def _begins(session: Session, file: str) -> MariaDbPosition | None:
    row = session.row(
        "SELECT BINLOG_GTID_POS(%s, %s) AS place", (file, _HEAD), doing=f"read the place at which {file} begins"
    )
    return None if row["place"] is None else MariaDbPosition.parse(str(row["place"]))


def _now(session: Session) -> MariaDbPosition:
    row = session.row("SELECT @@GLOBAL.gtid_binlog_pos AS place", doing="read gtid_binlog_pos")
    return MariaDbPosition.parse(row["place"] or "")
