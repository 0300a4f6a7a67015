"""What a repair would do, and when a person is asked."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.pipeline import NO_SINK, Approval, Policy, Repair, SinkSpec, Writer
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.repair import Deletions, RepairPlan, check_repaired, needs_approval, refusal
from airflow_cdc.decisions.compare.verdict import KeyVerdict, Tally
from tests.unit.builders import PIPELINE
from tests.unit.tables import col

TABLE = Table(
    "shop",
    "names",
    (col("name", 1, "varchar", "varchar(9)", nullable=False), col("n", 2, "int", "int", nullable=False)),
    ("name", "n"),
)


@pytest.fixture
def tally() -> Tally:
    made = Tally()
    for verdict, key in (
        (KeyVerdict.MISSING, "3|a|b|1"),
        (KeyVerdict.DIFFERENT, "1|c|2"),
        (KeyVerdict.GHOST, "1|d|3"),
        (KeyVerdict.UNSETTLED, "1|e|4"),
        (KeyVerdict.EQUAL, "1|f|5"),
    ):
        made.add(verdict, key)
    made.add(KeyVerdict.GHOST, "1|g|6", 2)
    return made


def test_every_key_that_is_not_proven_equal_is_read_again(tally: Tally) -> None:
    plan = RepairPlan.of(TABLE, tally, 100)
    assert plan.keys == ("3|a|b|1", "1|c|2", "1|e|4", "1|d|3", "1|g|6")
    assert (plan.writes, plan.deletes, plan.rows, plan.replaces) == (2, 3, 100, False)
    assert plan.actions_to_json(TABLE) == [
        {"action": "write", "why": "missing", "key": ["a|b", 1]},
        {"action": "write", "why": "different", "key": ["c", 2]},
        {"action": "delete", "why": "ghosts", "key": ["d", 3]},
        {"action": "delete", "why": "ghosts", "key": ["g", 6]},
        {"action": "write", "why": "unsettled", "key": ["e", 4]},
    ]
    assert plan.shown[0] == "missing: 3|a|b|1"


def test_a_tally_keeps_more_keys_than_it_shows() -> None:
    many = Tally()
    for number in range(50):
        many.add(KeyVerdict.DIFFERENT, f"1|x|{number}")
    plan = RepairPlan.of(TABLE, many, 100)
    assert len(plan.keys) == 50
    assert len(plan.shown) == 20


FEW, MANY = Deletions(1, 100), Deletions(2, 100)


@pytest.mark.parametrize(
    ("repair", "approval", "wanted", "asks"),
    [
        ("approved", "when_destructive", [FEW], True),
        ("automatic", "when_destructive", [FEW], False),
        ("automatic", "when_destructive", [FEW, MANY], True),
        ("automatic", "always", [MANY], True),
        ("approved", "never", [MANY], False),
        ("approved", "when_destructive", [], False),
    ],
)
def test_who_is_asked(repair: Repair, approval: Approval, wanted: list[Deletions], asks: bool) -> None:
    assert needs_approval(Policy(repair=repair, approval=approval), wanted) is asks


@pytest.mark.parametrize(
    ("approved", "why"), [({}, "delete 3 of 100 rows"), ({"shop.names": 2}, "of which 2"), ({"shop.names": 3}, "")]
)
def test_no_more_is_deleted_than_was_agreed_to(tally: Tally, approved: dict[str, int], why: str) -> None:
    plan = RepairPlan.of(TABLE, tally, 100)
    said = refusal(Policy(max_deletes=Limit(1, percent=True)), plan, approved)
    assert (why in said) if why else said == ""
    assert refusal(Policy(max_deletes=Limit(3, percent=False)), plan, {}) == ""


@pytest.mark.parametrize(
    ("writer", "dry", "refused"),
    [
        (Writer.CDC_APPLY, False, ""),
        (Writer.CONNECT_SINK, False, ""),
        (Writer.CONSUMERS, False, ""),
        (Writer.CONNECTOR, True, ""),
        (Writer.CONNECTOR, False, "a repair needs"),
    ],
)
def test_what_can_be_repaired_follows_from_who_writes_the_tables(writer: Writer, refused: str, *, dry: bool) -> None:
    """A job that writes them itself has no topic through which they could be put right: such tables are compared alone."""
    pipeline = replace(PIPELINE, sink=SinkSpec("any", "shop", writer=writer))
    with pytest.raises(UsageError, match=refused) if refused else nullcontext():
        check_repaired(pipeline, dry=dry)


@pytest.mark.parametrize("dry", [True, False])
def test_without_a_sink_nothing_is_repaired(*, dry: bool) -> None:
    with pytest.raises(UsageError, match="sink"):
        check_repaired(replace(PIPELINE, sink=NO_SINK), dry=dry)
