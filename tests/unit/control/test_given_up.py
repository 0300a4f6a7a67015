"""Tables of an open recovery that are given up: the others stay in it, and it ends with the last one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.control.document import without_tables
from airflow_cdc.decisions.abandon import Abandonment

NOTE = Abandonment("2026-11-21T09:00:00+00:00", "ann", "the table was dropped", "r")
WRITTEN = {"at": NOTE.at, "who": "ann", "reason": "the table was dropped", "run_id": "r"}
EARLIER = {"who": "bob"}
OPEN: dict[str, Any] = {
    "epoch": 4,
    "recovery": {"run_id": "r", "tables": ["shop.a", "shop.b"], "epoch": 4},
    "abandoned": {"shop.z": EARLIER},
    "ledger": {"r": {"epoch": 4, "abandoned": {"shop.y": EARLIER}}, "other": {"epoch": 3}},
}


def test_the_others_stay_in_the_recovery_and_it_stays_open() -> None:
    after = without_tables(OPEN, ["shop.b"], NOTE)
    assert after["recovery"] == {"run_id": "r", "tables": ["shop.a"], "epoch": 4}
    assert "closed_at" not in after["ledger"]["r"]


@pytest.mark.parametrize("gone", [["shop.a", "shop.b"], ["shop.b", "shop.a", "shop.c"]])
def test_the_last_one_closes_it_as_abandoned(gone: list[str]) -> None:
    after = without_tables(OPEN, gone, NOTE)
    assert after["recovery"] is None
    assert (after["ledger"]["r"]["recovery"], after["ledger"]["r"]["closed_at"]) == ("abandoned", NOTE.at)
    assert after["ledger"]["r"]["epoch"] == 4


def test_who_gave_it_up_and_why_is_kept_in_the_document_and_in_the_run_beside_what_was_given_up_before() -> None:
    after = without_tables(OPEN, ["shop.b"], NOTE)
    assert after["abandoned"] == {"shop.z": EARLIER, "shop.b": WRITTEN}
    assert after["ledger"]["r"]["abandoned"] == {"shop.y": EARLIER, "shop.b": WRITTEN}
    assert after["ledger"]["other"] == {"epoch": 3}
    assert after["epoch"] == 4
