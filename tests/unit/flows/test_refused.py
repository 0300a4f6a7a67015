"""Tables that DDL has stopped: what is noted of them, how often they are tried, and what a policy refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.control.control import REFUSED
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows.refused import failed_tries, note_refused
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.stages.reread import TRIES, refusal
from tests.unit.builders import PIPELINE

TABLE = PIPELINE.source.tables[0]


@dataclass(slots=True)
class Kept:
    """A control table and a lake of which only this is asked."""

    stamp: Stamp = field(default_factory=lambda: Stamp(3))
    ledger: dict[str, dict[str, Any]] = field(default_factory=dict)

    def mirrored_stamp(self, _table: str) -> Stamp | None:
        return None

    def stamp_or_mirror(self, *_place: object) -> Stamp:
        return self.stamp

    def ledger_get(self, run_id: str) -> dict[str, Any]:
        return self.ledger.get(run_id, {})

    def ledger_set(self, run_id: str, key: str, value: dict[str, Any]) -> None:
        self.ledger[run_id] = {**self.ledger.get(run_id, {}), key: value}

    @property
    def noted(self) -> dict[str, Any]:
        noted: dict[str, Any] = self.ledger[REFUSED][TABLE]
        return noted


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def run(kept: Kept) -> Run:
    clients = SimpleNamespace(control=kept, sink=SimpleNamespace(staging=kept))
    return Run(PIPELINE, cast("Any", clients), "run-1", "")


def test_a_failed_re_read_counts_and_a_refused_one_does_not(run: Run, kept: Kept) -> None:
    note_refused(run, TABLE, "policy", tried=False)
    assert (kept.noted["tries"], failed_tries(run, TABLE)) == (0, 0)
    note_refused(run, TABLE, "cut off", tried=True)
    note_refused(run, TABLE, "cut off again", tried=True)
    note_refused(run, TABLE, "too often", tried=False)
    assert (kept.noted["tries"], kept.noted["why"], failed_tries(run, TABLE)) == (2, "cut off again", 2)


def test_a_new_stamp_or_an_hour_lets_it_be_tried_again(run: Run, kept: Kept) -> None:
    note_refused(run, TABLE, "cut off", tried=True)
    kept.noted["at"] = (datetime.now(UTC) - timedelta(minutes=61)).isoformat()
    assert failed_tries(run, TABLE) == 0
    note_refused(run, TABLE, "cut off", tried=True)
    assert failed_tries(run, TABLE) == 1
    kept.stamp = Stamp(3, snapshot_id=9)
    assert failed_tries(run, TABLE) == 0


@pytest.mark.parametrize(
    ("policy", "tries", "rows", "why"),
    [
        (Policy(), 0, 10_000_000, ""),
        (Policy(), 0, 10_000_001, "more than reread_limit"),
        (Policy(), TRIES - 1, 5, ""),
        (Policy(), TRIES, 5, "3 times without success"),
        (Policy(schema_change="stop"), 0, 5, "schema_change: stop"),
        (Policy(reread_limit=4), 0, 5, "about 5 rows"),
    ],
)
def test_what_a_policy_leaves_to_a_person(policy: Policy, tries: int, rows: int, why: str) -> None:
    said = refusal(policy, tries, rows)
    assert (why in said) if why else said == ""
