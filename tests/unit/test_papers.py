"""Every paper as version 0.1.0 wrote it is read to the same value, and what is written now is read again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.control.control import Control
from airflow_cdc.control.ledger import StepEntry
from airflow_cdc.core.codec import plain, read, sparse
from airflow_cdc.core.errors import UnknownStateError
from airflow_cdc.core.ports import StoredDocument
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.report import StepReport, TableReport
from airflow_cdc.kinds import read_position
from tests.paths import ROOT
from tests.unit.papers import PAPERS, RECOVERY

WRITTEN: dict[str, Any] = json.loads((ROOT / "tests/data/papers/written.json").read_text(encoding="utf-8"))
# these say other names, say more, or are sparser, than they were written by 0.1.0; they are read all the same
CHANGED = {"observation", "observation, bare", "lease, bare", "recovery", "recovery, bare", "recovery, nothing stored"}


def again(kind: type[Any], value: Any) -> Any:
    if kind is OpenRecovery:
        return OpenRecovery.from_json(value, read_position)
    if kind is StepEntry:
        return StepEntry.from_json("snapshot", value)
    own = getattr(kind, "from_json", None)
    return own(value) if own else read(kind, value)


def as_json(paper: Any) -> Any:
    value = paper.to_json() if hasattr(paper, "to_json") else plain(paper)
    value = sparse(paper) if isinstance(paper, TableReport | StepReport) else value
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_of_an_earlier_version_is_read(name: str) -> None:
    paper = PAPERS[name]
    assert again(type(paper), WRITTEN[name]) == paper


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_is_written_as_before_and_read_again(name: str) -> None:
    paper = PAPERS[name]
    assert again(type(paper), as_json(paper)) == paper
    assert as_json(paper) == WRITTEN[name] or name in CHANGED


def test_a_paper_says_by_name_what_it_cannot_read() -> None:
    lease = WRITTEN["lease"]
    for odd, why in (
        ({**lease, "colour": "red"}, "Lease has no colour"),
        ({"owner": "r"}, "Lease: expires_at missing"),
        ({**lease, "seconds": float("inf")}, "Lease.seconds is 'inf'"),
        ({**lease, "owner": None}, "Lease.owner is 'None'"),
        ({**lease, "expires_at": "2026-11-21T09:00:00"}, "no lease"),
    ):
        with pytest.raises(ValueError, match=why):
            read(type(PAPERS["lease"]), odd)
    assert read(type(PAPERS["lease"]), {**lease, "colour": "red"}, more=True) == PAPERS["lease"]


@pytest.mark.parametrize(("paper", "said"), [(PAPERS["xa, bare"], 4), (PAPERS["xa"], 5), (PAPERS["outages, bare"], 0)])
def test_a_sparse_paper_says_only_what_is_not_as_by_default(paper: Any, said: int) -> None:
    assert len(sparse(paper)) == said
    assert read(type(paper), sparse(paper)) == paper


class OneText:
    """A control store that holds one document."""

    where = "here"

    def __init__(self, text: str) -> None:
        self.text, self.version = text, "1"

    def place(self, pipeline: str) -> str:
        return pipeline

    def load(self, pipeline: str) -> StoredDocument:
        return StoredDocument(self.text, self.version)

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        assert expected == self.version
        self.text, self.version = text, f"{self.version}1"


def test_a_control_document_of_an_earlier_version_is_read_and_goes_on() -> None:
    """It was written by version 0.1.0's own steps, with a recovery open in the middle of its work."""
    store = OneText((ROOT / "tests/data/papers/control_2.json").read_text(encoding="utf-8"))
    control, before = Control(store, "shop"), json.loads(store.text)
    stored = replace(RECOVERY, epoch=2, opened_at=before["recovery"]["opened_at"])
    assert control.recovery(read_position) == stored
    facts = control.facts()
    assert (facts.epoch, facts.lease and facts.lease.owner, facts.recovery and facts.recovery.run_id) == (
        2,
        "run:1",
        "run:1",
    )
    assert (facts.refused, facts.compared_xa) == ({"shop.orders": PAPERS["refused"]}, {"shop.orders": PAPERS["xa"]})
    assert control.mirrored_stamp("shop.orders") == PAPERS["stamp"]
    assert control.entry("night:1").checked["shop.orders"].report == PAPERS["table"]
    control.change_recovery("run:1", lambda now: now.resumed("now"), read_position)
    after = json.loads(store.text)
    assert (after["format"], after["recovery"]["format"], after["recovery"]["attempt"]) == (3, 2, 2)
    assert {part for part in before if before[part] != after[part]} == {"format", "recovery", "writes"}
    assert control.recovery(read_position) == stored.resumed("now")
    control.close_recovery("run:1")
    assert control.ledger_get("run:1")["recovery"] == "closed"


@pytest.mark.parametrize("form", [0, 3, "2", None])
def test_an_open_recovery_of_another_format_is_refused_by_its_number(form: Any) -> None:
    with pytest.raises(UnknownStateError, match="this version reads formats up to 2"):
        OpenRecovery.from_json({**RECOVERY.to_json(), "format": form}, read_position)


def test_a_recovery_whose_comparison_contradicts_itself_cannot_be_read() -> None:
    odd = {"run_id": "r", "verified": {"shop.t": {"verdict": "MATCH", "missing": 1}}}
    with pytest.raises(UnknownStateError, match="MATCH was reported with 1 unequal rows"):
        OpenRecovery.from_json(odd, read_position)
