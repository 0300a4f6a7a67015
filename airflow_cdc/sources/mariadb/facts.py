"""What a MariaDB server says of its GTIDs, by statements that change nothing and need no right of their own."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.diagnosis.observation import BinlogFile, DomainFacts
from airflow_cdc.core.errors import SourceError
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition, MariaDbState
from airflow_cdc.sources.mysql.session import Session

# the head of a file says what stands before it; only this much of it is read
_HEAD = 4


def domain_facts(session: Session, files: Sequence[BinlogFile]) -> DomainFacts:
    """What was logged, and what of it no file holds any more. `files` not empty. Raises SourceError.

    The oldest file may be purged between the list and the look at it: then nothing is known this time.
    """
    row = session.row("SELECT @@GLOBAL.gtid_binlog_state AS state", doing="read gtid_binlog_state")
    purged = begins(session, files[0].name)
    if purged is None:
        raise SourceError(
            f"{files[0].name} was listed, and is gone or unreadable now", where=session.where, todo="Look again."
        )
    return DomainFacts(MariaDbState.parse(row["state"] or ""), purged)


def begins(session: Session, file: str) -> MariaDbPosition | None:
    """The place at which a log file begins; None if there is no such file."""
    row = session.row(
        "SELECT BINLOG_GTID_POS(%s, %s) AS place", (file, _HEAD), doing=f"read the place at which {file} begins"
    )
    return None if row["place"] is None else MariaDbPosition.parse(str(row["place"]))
