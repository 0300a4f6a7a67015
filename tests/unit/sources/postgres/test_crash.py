"""When a server's statistics say that it has crashed."""

from __future__ import annotations

import pytest

from airflow_cdc.sources.postgres.crash import crashed_between
from airflow_cdc.sources.postgres.position import Lsn, PgPosition

BEFORE = "2026-01-01 00:00:00.1+00|2026-01-01 00:00:00.1+00|2026-01-01 00:00:00.1+00"
AFTER = "2026-01-02 00:00:00.1+00|2026-01-02 00:00:00.1+00|2026-01-02 00:00:00.1+00"
ONE_RESET = "2026-01-02 00:00:00.1+00|2026-01-01 00:00:00.1+00|2026-01-01 00:00:00.1+00"


@pytest.mark.parametrize(
    ("before", "now", "crashed"),
    [
        (BEFORE, AFTER, True),
        (BEFORE, BEFORE, False),
        (BEFORE, ONE_RESET, False),  # somebody reset one of them
        ("", AFTER, False),  # of a W that does not say
        (BEFORE, "", False),
    ],
)
def test_all_statistics_are_counted_anew_only_after_a_crash(before: str, now: str, *, crashed: bool) -> None:
    assert crashed_between(before, now) is crashed


def test_a_position_keeps_since_when_its_server_counts() -> None:
    position = PgPosition(Lsn(5), 1, "7", "3:4:", BEFORE)
    assert PgPosition.from_json(position.to_json()).counted_since == BEFORE
    assert position == PgPosition(Lsn(5), 1, "7")  # it is no part of the place
