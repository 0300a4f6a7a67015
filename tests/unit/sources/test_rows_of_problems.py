"""Each row of the sources' problems: what it is called, how much is lost while nobody acts, and what may be done about it.

Its tables: airflow_cdc.sources.mysql.problems, airflow_cdc.sources.mysql.binlog_problems, airflow_cdc.sources.mariadb.problems,
airflow_cdc.sources.postgres.problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from airflow_cdc.core.error_texts import match
from airflow_cdc.core.problem import WARNING, Danger, Problem, Rules
from airflow_cdc.decisions.diagnosis.strategy import (
    DETOUR,
    DIFF_REPAIR,
    FULL,
    NEXT_FILE,
    TRANSLATE,
)
from airflow_cdc.kinds import all_texts
from airflow_cdc.sources.mariadb import problems as mariadb
from airflow_cdc.sources.mysql import problems as mysql
from airflow_cdc.sources.postgres import problems as postgres
from tests.unit.builders import ALL_CODES


class Row(NamedTuple):
    """What is known of a row.

    Attributes:
        code: what it is called.
        does: what may be done about it, the best first; () where a person looks first.
        asked: what else a person may ask for.
        of: "position": the position itself is wrong, or cannot be judged; "order": worth a word while it is in order.
        danger: what it costs while nobody acts.
    """

    code: str
    does: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    of: str = ""
    danger: Danger = Danger.LOSS


RESTART, SKIP = "restart", "skip"
AFTER_A_GAP = (NEXT_FILE, DIFF_REPAIR, FULL)
# each in the order in which they lead: what is lost before what will be, and that before what is set wrongly
SHARED_BEGIN: Mapping[str, Row] = {"log_off": Row("SOURCE_MISCONFIGURED")}
BY_FILE: Mapping[str, Row] = {
    "source_changed": Row("SOURCE_CHANGED", (FULL,), of="position"),
    "binlog_purged": Row("BINLOG_PURGED", (FULL,), (DIFF_REPAIR, SKIP), "position"),
    "position_past_end": Row("POSITION_PAST_END", AFTER_A_GAP, of="position"),
    "position_mid_event": Row("POSITION_MID_EVENT", AFTER_A_GAP, of="position"),
}
SHARED_END: Mapping[str, Row] = {
    "duplicate_server_id": Row("DUPLICATE_SERVER_ID", (), (RESTART,)),
    "at_risk": Row("AT_RISK", WARNING, (FULL, DIFF_REPAIR), "order"),
    "log_incomplete": Row("LOG_INCOMPLETE", WARNING, (FULL, DIFF_REPAIR), danger=Danger.THREAT),
    "xa_rolled_back": Row("XA_ROLLED_BACK", WARNING, (FULL, DIFF_REPAIR), danger=Danger.THREAT),
    "retention_misconfigured": Row("SOURCE_MISCONFIGURED", WARNING, danger=Danger.SETTING),
}
MYSQL: Mapping[str, Row] = {
    **SHARED_BEGIN,
    # a replica may have what the source purged
    "gtid_purged": Row("GTID_PURGED", (DETOUR, FULL), (DIFF_REPAIR, SKIP), "position"),
    "position_ahead": Row("POSITION_AHEAD", (FULL,), (DIFF_REPAIR,), "position"),
    **BY_FILE,
    "gtid_mode_mismatch": Row("GTID_MODE_MISMATCH", (), (FULL,), "position"),
    "gtid_not_contained": Row("GTID_NOT_CONTAINED", (TRANSLATE, FULL), of="position"),
    "streams_elsewhere": Row("UNKNOWN"),
    "gtid_missing_in_offset": Row("GTID_MISSING_IN_OFFSET", (FULL,), of="position"),
    "rows_misconfigured": Row("SOURCE_MISCONFIGURED"),
    "half_sent": Row("TRANSACTION_HALF_SENT", (DIFF_REPAIR, FULL), of="position"),
    "failed_over": Row("SOURCE_FAILED_OVER", (TRANSLATE, FULL), (RESTART, FULL, DIFF_REPAIR), "order"),
    **SHARED_END,
}
MARIADB: Mapping[str, Row] = {
    **SHARED_BEGIN,
    "purged": Row("GTID_PURGED", (DETOUR, FULL), (DIFF_REPAIR, SKIP), "position"),
    "ahead": Row("POSITION_AHEAD", (FULL,), (DIFF_REPAIR,), "position"),
    **BY_FILE,
    "other_make": Row("GTID_MODE_MISMATCH", (), (FULL,), "position"),
    "not_contained": Row("GTID_NOT_CONTAINED", (TRANSLATE, FULL), of="position"),
    "streams_elsewhere": Row("UNKNOWN"),
    "missing_in_offset": Row("GTID_MISSING_IN_OFFSET", (FULL,), of="position"),
    "rows_misconfigured": Row("SOURCE_MISCONFIGURED"),
    "skips_ahead": Row("TRANSACTION_HALF_SENT", (DIFF_REPAIR, FULL), of="position"),
    **SHARED_END,
}
POSTGRES: Mapping[str, Row] = {
    "wal_level": Row("WAL_LEVEL"),
    # a slot only moves forward: what it gave up is read from the tables
    "slot_missing": Row("SLOT_MISSING", (FULL,), of="position"),
    "slot_invalidated": Row("SLOT_INVALIDATED", (FULL,), of="position"),
    "other_system": Row("OTHER_SYSTEM", (FULL,), of="position"),
    "other_timeline": Row("OTHER_TIMELINE", (FULL,), of="position"),
    "lsn_ahead": Row("LSN_AHEAD", (DIFF_REPAIR, FULL), of="position"),
    "lsn_behind_restart": Row("LSN_BEHIND_RESTART", (FULL,), of="position"),
    "lsn_before_slot": Row("LSN_BEFORE_SLOT", (DIFF_REPAIR, FULL), of="position"),
    "publication_missing": Row("PUBLICATION_MISSING", (FULL,)),
    "streams_elsewhere": Row("UNKNOWN"),
    "published_in_part": Row("SOURCE_MISCONFIGURED"),
    "slot_misfit": Row("SOURCE_MISCONFIGURED"),
    "slot_active_elsewhere": Row("SLOT_ACTIVE_ELSEWHERE"),
    "no_wal_sender": Row("MAX_WAL_SENDERS"),
    "at_risk": Row("AT_RISK", WARNING, of="order"),
    "slot_unread": Row("CONNECTOR_LOOPING", (), (RESTART, FULL, DIFF_REPAIR), "order"),
    "log_incomplete": Row("LOG_INCOMPLETE", WARNING, danger=Danger.THREAT),
    "replica_identity": Row("REPLICA_IDENTITY", WARNING, danger=Danger.THREAT),
    "slot_grows": Row("SLOT_GROWS", WARNING, danger=Danger.THREAT),
    "rights_missing": Row("SOURCE_MISCONFIGURED", WARNING, danger=Danger.SETTING),
}
ALL = (("mysql", mysql.RULES, MYSQL), ("mariadb", mariadb.RULES, MARIADB), ("postgres", postgres.RULES, POSTGRES))


def _row(row: Problem) -> Row:
    of = "position" if row.about_position else "order" if row.in_order else ""
    return Row(row.code, row.strategies, row.on_request, of, row.danger)


@pytest.mark.parametrize(("source", "rules", "rows"), ALL, ids=[one[0] for one in ALL])
def test_each_row_has_its_name_its_danger_and_its_ways_out(source: str, rules: Rules, rows: Mapping[str, Row]) -> None:
    ordered = sorted(rules.problems, key=lambda row: row.rank)
    told = {getattr(row.holds, "__name__", ""): _row(row) for row in ordered}
    assert list(told.items()) == list(rows.items()), source
    assert len({row.rank for row in ordered}) == len(ordered)
    assert {row.code for row in ordered} <= ALL_CODES
    assert not any(row.about_position and row.in_order for row in ordered)


@pytest.mark.parametrize(
    ("line", "code", "means"),
    [
        ("Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old", "GTID_PURGED", "not read yet were purged"),
        ("Error: connecting slave requested to start from GTID 0-1-100, which is not in the master's binlog", "GTID_NOT_CONTAINED", "names a transaction"),
        ("The binlog on the master is missing the GTID 0-1-100 requested by the slave", "GTID_NOT_CONTAINED", "names a transaction"),
    ],
)  # fmt: skip
def test_what_mariadb_prints_of_its_gtids_is_explained(line: str, code: str, means: str) -> None:
    explained = match(all_texts(), line)
    assert explained is not None
    assert (explained.code, means in explained.meaning) == (code, True)
    assert {text.rank for text in mysql.RULES.texts} - {text.rank for text in mariadb.RULES.texts} == {20, 50, 60, 142}
    assert {text.code: bool(text.says) for text in mariadb.TEXTS if text.rank in {51, 61}} == {
        "GTID_PURGED": True,
        "GTID_NOT_CONTAINED": True,
    }
