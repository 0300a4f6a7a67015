"""A repair of tables that others write: when the connector is stopped for it, for which rows, and what its report says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import SchemaError, VerificationError
from airflow_cdc.core.pipeline import Policy, SinkSpec, Writer
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.repair import RepairPlan
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps import repair as app
from airflow_cdc.spark_apps.compare import caveats
from airflow_cdc.spark_apps.compare.results import unproven
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.snapshot.corrections import Written
from airflow_cdc.spark_apps.stages import repair_topics as stage
from airflow_cdc.spark_apps.stages.repair import RepairOutcome
from tests.unit.builders import PIPELINE, WATERMARK
from tests.unit.flows.recovering import recovering

SPARK: Any = None
ORDERS, NOTES = (Table("shop", name, (), ()) for name in ("orders", "notes"))
KEYS = RepairPlan("shop.orders", different=("i7",), ghosts=("i9",), deletes=1, rows=100)


def outcome(table: Table, verdict: Verdict, plan: RepairPlan | None = None) -> RepairOutcome:
    report = replace(unproven(table.full_name, "compared"), verdict=verdict)
    return RepairOutcome(table, plan or RepairPlan(table.full_name), report)


WRONG = outcome(ORDERS, Verdict.MISMATCH, KEYS)
EQUAL = outcome(ORDERS, Verdict.MATCH)
ALSO_WRONG = outcome(NOTES, Verdict.MISMATCH, replace(KEYS, table="shop.notes"))


@dataclass
class Scene:
    """What happened, in order, and what each comparison finds."""

    run: Run
    finds: list[list[RepairOutcome]]
    happened: list[Any] = field(default_factory=list)
    only: dict[str, frozenset[str]] = field(default_factory=dict)
    told: list[RepairOutcome] = field(default_factory=list)
    fails: tuple[str, ...] = ()

    def repaired(self) -> dict[str, Any]:
        return repair(self.run, SPARK)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scene]:
    """A repair whose comparisons and corrections are the test's."""

    def made(*finds: list[RepairOutcome], policy: Policy | None = None, xa: bool = False, **more: Any) -> Scene:
        through = replace(PIPELINE, sink=SinkSpec("topics", "", writer=Writer.CONSUMERS), policy=policy or Policy())
        scene = Scene(replace(recovering(), pipeline=through), list(finds), **more)

        def compared(_run: Run, _spark: Any, names: Sequence[str], _seconds: float) -> list[RepairOutcome]:
            scene.happened.append(("compare", *names))
            return scene.finds.pop(0)

        @contextmanager
        def resting(_run: Run) -> Iterator[Any]:
            scene.happened.append("stop")
            try:
                yield WATERMARK.position
            finally:
                scene.happened.append("start")

        class Correcting:
            def __init__(self, *_: Any) -> None:
                scene.only = {name: frozenset(plan.keys) for name, plan in _[7].items()}

            def table(self, table: Table) -> Written:
                if table.full_name in scene.fails:
                    raise SchemaError("no record like it", where="here", todo="wait")
                scene.happened.append(("write", table.full_name))
                return Written(table.full_name, 1, 1)

        def tell(_run: Run, done: Sequence[RepairOutcome], _kind: str) -> dict[str, Any]:
            scene.told = list(done)
            return {}

        monkeypatch.setattr(stage, "compared_now", compared)
        monkeypatch.setattr(stage, "resting", resting)
        monkeypatch.setattr(stage, "started_again", lambda _run: scene.happened.append("started again"))
        monkeypatch.setattr(stage, "Correcting", Correcting)
        monkeypatch.setattr(app, "tell", tell)
        monkeypatch.setattr(stage, "leased", lambda *_: nullcontext())
        monkeypatch.setattr(caveats, "xa_open", lambda _run: xa)
        monkeypatch.setattr(stage, "open_topics", lambda _run: None)
        monkeypatch.setattr(stage, "odd_values_named", lambda *_: nullcontext())
        monkeypatch.setattr(stage, "report_check", lambda *_, **__: scene.happened.append("report"))
        known = {one.full_name: one for one in (ORDERS, NOTES)}
        monkeypatch.setattr(stage, "captured", lambda _run, names: {name: known[name] for name in names})
        return scene

    return made


def test_inv_47_only_what_differs_is_written_while_the_connector_rests_and_compared_again(
    scene: Callable[..., Scene],
) -> None:
    one = scene([WRONG], [EQUAL])
    assert one.repaired()["verdict"] == "MATCH"
    first, compared, *then = one.happened
    assert (first, compared[0]) == ("started again", "compare")  # a killed try has left it stopped
    assert then == ["stop", ("write", "shop.orders"), "start", ("compare", "shop.orders")]
    assert one.only == {"shop.orders": {"i7", "i9"}}
    (told,) = one.told
    assert told.said(dry=False) == "1 rows were read again, 1 were deleted: different: i7, ghosts: i9"


@pytest.mark.parametrize("verdict", [Verdict.MATCH, Verdict.INCONCLUSIVE])
def test_for_a_table_that_is_not_known_to_differ_the_connector_is_not_stopped(
    verdict: Verdict, scene: Callable[..., Scene]
) -> None:
    """A key that never rested while it was compared is no difference."""
    unsettled = RepairPlan("shop.orders", unsettled=("i7",), rows=100)
    one = scene([outcome(ORDERS, verdict, unsettled)])
    with nullcontext() if verdict is Verdict.MATCH else pytest.raises(VerificationError):
        one.repaired()
    assert [what for what in one.happened if what in ("stop", "start")] == []


def test_inv_36_more_deletes_than_were_agreed_to_are_not_written(scene: Callable[..., Scene]) -> None:
    policy = Policy(max_deletes=Limit.parse("1%"))
    many = outcome(ORDERS, Verdict.MISMATCH, replace(KEYS, ghosts=("i8", "i9"), deletes=2))
    one = scene([many], policy=policy)
    with pytest.raises(VerificationError, match="it would delete 2 of 100 rows"):
        one.repaired()
    assert "stop" not in one.happened
    agreed = scene([many], [EQUAL], policy=policy)
    agreed.run = replace(agreed.run, options=replace(agreed.run.options, deletes={"shop.orders": 2}))
    assert agreed.repaired()["verdict"] == "MATCH"


def test_inv_32_nothing_is_written_while_a_prepared_xa_transaction_is_open(scene: Callable[..., Scene]) -> None:
    one = scene([WRONG], xa=True)
    with pytest.raises(VerificationError, match="XA"):
        one.repaired()
    assert one.happened[2:] == ["report"]


def test_a_table_that_can_t_be_written_leaves_the_others_right_and_the_connector_running(
    scene: Callable[..., Scene],
) -> None:
    one = scene([WRONG, ALSO_WRONG], [outcome(NOTES, Verdict.MATCH)], fails=("shop.orders",))
    with pytest.raises(VerificationError, match=r"shop\.orders is INCONCLUSIVE: no record like it"):
        one.repaired()
    assert one.happened[2:] == ["stop", ("write", "shop.notes"), "start", ("compare", "shop.notes")]
    assert {told.table.name: (str(told.report.verdict), told.rewritten) for told in one.told} == {
        "orders": ("INCONCLUSIVE", False),
        "notes": ("MATCH", True),
    }


def test_what_is_still_wrong_afterwards_is_an_error(scene: Callable[..., Scene]) -> None:
    one = scene([WRONG], [WRONG])
    with pytest.raises(VerificationError, match=r"shop\.orders is MISMATCH") as refused:
        one.repaired()
    assert "The connector runs again" in refused.value.todo
