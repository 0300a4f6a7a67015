"""A followed MySQL database whose applications are struck: each runs under a fault, and then once more without it.

What holds for every application and fault: it goes on, or ends in one clear error; main is as before or right, and
nothing between; what it did not do is done by the next run. The faults of one part share a world: what one of them kept
from being done is what the next one finds to do.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.pipeline import BackfillSpec, HoldPolicy, Policy, sink_name
from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.backfill import backfill
from airflow_cdc.spark_apps.maintain import maintain
from airflow_cdc.spark_apps.nightly import nightly
from airflow_cdc.spark_apps.repair import repair
from tests.integration.recovering import FollowedDatabase
from tests.on_demand import on_demand
from tests.paths import ROOT

RESULT: Final = ROOT / "build" / "breaks.json"
NIGHT: Final = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
SMALL: Final = {"leaf_rows": 50, "reach_seconds": 60}
POLICY: Final = Policy(max_deletes=Limit(100, percent=True), hold=HoldPolicy(mode="off"))
ROWS: Final = 300
# of both tables: columns, key first
COLUMNS: Final = {"orders": ("id", "v", "day", "total", "seen"), "events": ("n", "t")}
RIGHT: Final[Any] = ([], [])
# longer than a clear error is
LONGEST: Final = 3000


@dataclass(frozen=True, slots=True)
class Cell:
    """What one application did under one fault. `said`: its error; "": it went on."""

    system: str
    application: str
    fault: str
    struck: int
    said: str
    seconds: float
    again: str


@dataclass
class Application:
    """One application: how something is left for it to do, how it runs, and what its result must be in the end.

    `looks`: it changes nothing, so that what was left for it stays; `end`: once after all faults.
    """

    name: str
    prepare: Callable[[FollowedDatabase], None]
    act: Callable[[FollowedDatabase, Run, Any], Any]
    done: Callable[[FollowedDatabase, Any], None]
    looks: bool = False
    end: Callable[[FollowedDatabase], None] = lambda _: None


@dataclass
class Fault:
    """`armed` is entered before the application runs, and tells at its end how often it struck."""

    name: str
    armed: Callable[[], AbstractContextManager[Callable[[], int]]]


@dataclass
class Strikes:
    """The cells of one database; `secrets` may stand in no error."""

    system: str
    world: FollowedDatabase
    secrets: tuple[str, ...]
    cells: list[Cell] = field(default_factory=list)

    def strike(self, application: Application, faults: Sequence[Fault]) -> list[Cell]:
        """One fault after the other, then one run without any. What a run did not do is there for the next, under the next fault.

        Raises AssertionError, or whatever the application raised that is no CdcError.
        """
        cells, due, said, run_id = list[Cell](), True, "", ""
        for fault in faults:
            if due:
                application.prepare(self.world)
            if not said:  # a run that failed is cleared: it has its lease still, where that could not be let go
                run_id = f"{application.name}-{uuid.uuid4().hex[:6]}"
            cell, result = self._struck(application, fault, run_id)
            cells.append(cell)
            said = cell.said
            if not said:
                application.done(self.world, result)
            due = not (said or application.looks)
        if said:
            again, result = self._run(application, run_id)
            assert not again, f"{application.name} after {cells}: {again}"
            application.done(self.world, result)
        application.end(self.world)
        return cells

    def _struck(self, application: Application, fault: Fault, run_id: str) -> tuple[Cell, Any]:
        before, began = states(self.world), monotonic()
        with fault.armed() as struck:
            said, result = self._run(application, run_id)
            seconds = round(monotonic() - began, 1)
            count = struck()
        self._check_main(before, f"{application.name} under {fault.name}: {said}")
        next_run = "the next run" if said else "not needed"
        cell = Cell(self.system, application.name, fault.name, count, said, seconds, next_run)
        self.cells.append(cell)
        self.write()
        return cell, result

    def strike_step(self, run: Run, name: str, act: Callable[[Run, Any], Any], faults: Sequence[Fault]) -> Any:
        """A step of one recovery under one fault after the other, each a further try of it, done or not; its result without a fault."""
        step = Application(name, lambda _: None, lambda _, same, spark: act(same, spark), lambda *_: None)
        for fault in faults:
            before, began = states(self.world), monotonic()
            with fault.armed() as struck:
                said, _ = self._run(step, run.run_id)
                count = struck()
            self._check_main(before, f"{name} under {fault.name}: {said}")
            self.cells.append(
                Cell(self.system, name, fault.name, count, said, round(monotonic() - began, 1), "the next try")
            )
            self.write()
        said, result = self._run(step, run.run_id)
        assert not said, f"{name} without a fault: {said}"
        return result

    def _run(self, application: Application, run_id: str) -> tuple[str, Any]:
        run = replace(self.world.base, run_id=run_id, pipeline=replace(self.world.base.pipeline, policy=POLICY))
        try:
            with on_demand(self.world.spark) as spark:
                return "", application.act(self.world, run, spark)
        except CdcError as error:
            return self.clear(error), None

    def clear(self, error: CdcError) -> str:
        """The error's text, if it is one clear error."""
        text = str(error)
        assert error.what, repr(error)
        assert error.where, text
        assert len(text) < LONGEST, text
        assert not any(mark in text for mark in ("Traceback", "\n\tat ", "Py4J", "java.lang.")), text
        assert not any(secret in text for secret in self.secrets), "a secret in an error"
        return text

    def _check_main(self, before: Mapping[str, Any], what: str) -> None:
        """Each table's main is as it was, or as its source is."""
        for table, order in COLUMNS.items():
            now = self.world.lake.read_arrow(self.world.database, sink_name(table)).to_pylist()
            same = sorted(now, key=repr) == before[table]
            assert same or self.world.differences(table, order) == RIGHT, f"{what}: {table} is half written"

    def write(self) -> None:
        """Add the cells to build/breaks.json, instead of those of an earlier run."""
        RESULT.parent.mkdir(exist_ok=True)
        known = json.loads(RESULT.read_text()) if RESULT.exists() else []
        cells = {(one["system"], one["application"], one["fault"]): one for one in [*known, *map(asdict, self.cells)]}
        RESULT.write_text(json.dumps([*cells.values()], indent=1) + "\n")


def states(world: FollowedDatabase) -> dict[str, Any]:
    """Table → rows of main, read by PyIceberg alone."""
    return {
        table: sorted(world.lake.read_arrow(world.database, sink_name(table)).to_pylist(), key=repr)
        for table in COLUMNS
    }


def is_right(world: FollowedDatabase) -> None:
    """Every row of both tables is in the sink, and no other."""
    for table, order in COLUMNS.items():
        assert world.differences(table, order) == RIGHT, table


# --- what the applications do ----------------------------------------------------------------------------------------


def _changed(world: Any) -> None:
    """Rows of both tables come, change and go, and the connector has sent it."""
    world.change()
    world.wait_read()


def _applied(world: FollowedDatabase, run: Run, spark: Any) -> Any:
    return apply_changes(run, spark)["tables"]


def _spoilt(world: FollowedDatabase) -> None:
    """Behind everybody's back: a row is changed, one is gone, one is too much; without a key one is gone."""
    is_right(world)
    orders, events = world.sink("orders"), world.sink("events")
    for statement in (
        f"INSERT INTO {orders} SELECT 900007, v, day, total, seen FROM {orders} WHERE id = 7",
        f"UPDATE {orders} SET total = total + 0.01 WHERE id = 7",
        f"DELETE FROM {orders} WHERE id = 8",
        f"DELETE FROM {events} WHERE n = 3",
    ):
        world.spark.sql(statement)


def undecided(run: Run) -> CdcError:
    """What a report says of the tables that could not be compared, as an error would."""
    report = json.loads((Path(report_folder(run)) / "report.json").read_text())
    doubted = [table for table in report["tables"] if table["verdict"] == "INCONCLUSIVE"]
    said = "; ".join(sample for table in doubted for sample in table["samples"])
    assert said, "INCONCLUSIVE without a reason"
    return CdcError(f"INCONCLUSIVE: {said[:1000]}", where=run.where)


def _night(world: FollowedDatabase, run: Run, spark: Any) -> Any:
    """Its tables; a night that could not look at one says so instead of raising, which is told as its error."""
    facts = nightly(run, spark, SMALL, NIGHT)
    if "INCONCLUSIVE" in facts["tables"].values():
        raise undecided(run)
    return facts["tables"]


def _found(tables: Any) -> None:
    assert set(tables.values()) == {"MISMATCH"}, tables


def _repaired(world: FollowedDatabase, run: Run, spark: Any) -> Any:
    approved = replace(run, options=RunOptions(approved=True))
    verdict = repair(approved, spark, {"reach_seconds": 60})["verdict"]
    if verdict == "INCONCLUSIVE":
        raise undecided(run)
    return verdict


def _spoilt_day(world: FollowedDatabase) -> None:
    """A row of one day is changed, and another is too much on it."""
    is_right(world)
    orders = world.sink("orders")
    world.spark.sql(f"UPDATE {orders} SET v = 'lost' WHERE id = 20")
    world.spark.sql(f"INSERT INTO {orders} SELECT 900020, v, day, total, seen FROM {orders} WHERE id = 20")


def _backfilled(world: Any, run: Run, spark: Any) -> Any:
    orders = run.pipeline.source.tables[0]
    options = RunOptions.from_json({"from": "2026-01-21T00:00:00+00:00", "to": "2026-01-22T00:00:00+00:00"})
    pipeline = replace(run.pipeline, backfill=(BackfillSpec(orders, "day"),))
    return backfill(replace(run, pipeline=pipeline, options=options), spark, {"reach_seconds": 60})["tables"]


def _all_right(world: FollowedDatabase, _result: Any) -> None:
    is_right(world)


def _restored(world: FollowedDatabase) -> None:
    """What was spoilt is repaired."""
    with on_demand(world.spark) as spark:
        run = replace(world.base, run_id=f"mend-{uuid.uuid4().hex[:6]}", options=RunOptions(approved=True))
        repair(replace(run, pipeline=replace(run.pipeline, policy=POLICY)), spark, {"reach_seconds": 60})
    is_right(world)


APPLY: Final = Application("apply", _changed, _applied, _all_right)
NIGHTLY: Final = Application("nightly", _spoilt, _night, lambda _, tables: _found(tables), looks=True, end=_restored)
REPAIR: Final = Application("repair", _spoilt, _repaired, _all_right)
BACKFILL: Final = Application("backfill", _spoilt_day, _backfilled, _all_right)
MAINTAIN: Final = Application("maintain", is_right, lambda _, run, spark: maintain(run, spark), _all_right, looks=True)
