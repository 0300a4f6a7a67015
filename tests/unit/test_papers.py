"""Every paper as version 0.1.0 wrote it is read to the same value, and what is written now is read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_cdc.control.ledger import StepEntry
from airflow_cdc.core.codec import plain, read, sparse
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.kinds import read_position
from tests.paths import ROOT
from tests.unit.papers import PAPERS

WRITTEN: dict[str, Any] = json.loads((ROOT / "tests/data/papers/written.json").read_text(encoding="utf-8"))
# these say other names, or are sparser, than they were written by 0.1.0; they are read all the same
CHANGED = {"observation", "lease, bare"}


def again(kind: type[Any], value: Any) -> Any:
    if kind is OpenRecovery:
        return OpenRecovery.from_json(value, read_position)
    if kind is StepEntry:
        return StepEntry.from_json("snapshot", value)
    own = getattr(kind, "from_json", None)
    return own(value) if own else read(kind, value)


def as_json(paper: Any) -> Any:
    value = paper.to_json() if hasattr(paper, "to_json") else plain(paper)
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
