"""What a night, a repair and a backfill must do over any source, with a real connector and rows written meanwhile.

A source's folder makes the suite its own: a subclass of Nights, with how its rows are written, and a fixture `followed`
whose `orders` (keyed by `id`, a day per row from 2026-01-01 on) and `events` (without a key) a connector follows.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.pipeline import BackfillSpec, Policy
from airflow_cdc.flows.checks import conclude
from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.spark_apps.backfill import backfill
from airflow_cdc.spark_apps.nightly import nightly
from airflow_cdc.spark_apps.repair import repair
from tests.integration.recovering import FollowedDatabase

NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = {"leaf_rows": 50, "reach_seconds": 60}
ALL = Policy(max_deletes=Limit(100, percent=True))
ROWS = 300


class Nights:
    """One pipeline's nights. `SETTINGS`: of its connector. `ORDERS`: its columns."""

    SETTINGS: ClassVar[dict[str, str]]
    ORDERS: ClassVar[tuple[str, ...]]

    def orders(self, first: int, last: int) -> str:
        """SQL that inserts rows of these ids."""
        raise NotImplementedError

    def events(self, first: int, last: int) -> str:
        """SQL that inserts rows (n % 50, 'e' and n % 7) without a key."""
        raise NotImplementedError

    def writing(self, followed: Any, *statements: str) -> AbstractContextManager[Any]:
        """Run the statements again and again meanwhile, {n} counting up."""
        raise NotImplementedError

    @pytest.fixture
    def mirrored(self, followed: Any) -> FollowedDatabase:
        """Both tables filled, and all of it applied."""
        database: FollowedDatabase = followed
        followed.follow(self.SETTINGS)
        followed.execute(self.orders(1, ROWS), self.events(1, 500))
        database.apply("apply-1")
        assert self.left(database) == NOTHING
        return database

    def test_a_night_under_writes_is_a_match_and_finds_what_was_changed_in_the_sink(
        self, mirrored: FollowedDatabase
    ) -> None:
        """The second night names exactly the rows that were spoilt, and touches nothing."""
        orders, events = mirrored.base.pipeline.source.tables
        with self.writing(mirrored, *LIVE):
            healthy = nightly(night(mirrored, 1), mirrored.spark, SMALL, NIGHT)
        assert (healthy["verdict"], healthy["tables"]) == ("MATCH", {orders: "MATCH", events: "MATCH"})
        mirrored.apply("apply-2")
        tamper(mirrored)
        heads = mirrored.heads()
        second = night(mirrored, 2)
        with self.writing(mirrored, *LIVE):
            facts = nightly(second, mirrored.spark, SMALL, NIGHT + timedelta(days=1))
        assert facts["tables"] == {orders: "MISMATCH", events: "MISMATCH"}
        keys = json.loads((Path(report_folder(second)) / f"keys-{orders}.json").read_text())
        assert {(str(one["key"][0]), one["why"]) for one in keys} == WRONG
        with pytest.raises(VerificationError, match="MISMATCH"):
            conclude(second)
        assert mirrored.heads() == heads

    def test_a_repair_under_writes_reads_the_spoilt_rows_again_and_the_next_night_agrees(
        self, mirrored: FollowedDatabase
    ) -> None:
        tamper(mirrored)
        run = night(mirrored, 1)
        with self.writing(mirrored, *LIVE):
            repaired = repair(replace(run, options=RunOptions(approved=True)), mirrored.spark, {"reach_seconds": 60})
        assert repaired["verdict"] == "MATCH"
        report = json.loads((Path(report_folder(run)) / "report.json").read_text())
        assert (report["verdict"], report["strategy"], report["problem"]) == ("MATCH", "diff_repair", "SINK_DIFFERS")
        mirrored.apply("apply-2")
        assert self.left(mirrored) == NOTHING
        with self.writing(mirrored, *LIVE):
            assert nightly(night(mirrored, 2), mirrored.spark, SMALL, NIGHT + timedelta(days=1))["verdict"] == "MATCH"

    def test_a_day_is_backfilled_and_nothing_else_is(self, mirrored: FollowedDatabase) -> None:
        """Rows of two days are wrong, changed and gone; of one day they are brought to the source, under writes."""
        sink = mirrored.sink("orders")
        for statement in (
            f"UPDATE {sink} SET v = 'lost' WHERE id IN (20, 21)",
            f"INSERT INTO {sink} SELECT {', '.join('9020' if n == 'id' else f'`{n}`' for n in self.ORDERS)} FROM {sink} WHERE id = 20",
        ):
            mirrored.spark.sql(statement)
        with self.writing(mirrored, *LIVE):
            (done,) = backfill(day(mirrored, 20), mirrored.spark, {"reach_seconds": 60})["tables"].values()
        assert (done["writes"], done["deletes"]) == (1, 1)
        mirrored.apply("apply-2")
        only_source, only_sink = mirrored.differences("orders", self.ORDERS)
        assert [row[0] for row in only_source] == [row[0] for row in only_sink] == [21]
        (again,) = backfill(day(mirrored, 20, "again"), mirrored.spark, {"reach_seconds": 60})["tables"].values()
        assert (again["writes"], again["published"]) == (0, None)

    def left(self, mirrored: FollowedDatabase) -> Any:
        """Rows that differ, by table: only in the source, only in the sink."""
        return mirrored.differences("orders", self.ORDERS), mirrored.differences("events", ("n", "t"))


NOTHING: Any = (([], []), ([], []))
# rows that no test spoils: an event of its own would mend one
LIVE = (
    "UPDATE orders SET v = 'w{n}' WHERE id = 200 + {n} % 50",
    "INSERT INTO events VALUES ({n}, 'live'), ({n}, 'live')",
    "DELETE FROM events WHERE n = {n} - 10 AND t = 'live'",
)
WRONG = {("7", "different"), ("8", "missing"), ("9007", "ghosts")}


def tamper(mirrored: FollowedDatabase) -> None:
    """Behind everybody's back: one row is changed, one is gone, one is too much; and a repeated row once less."""
    orders, events = mirrored.sink("orders"), mirrored.sink("events")
    columns = [field.name for field in mirrored.spark.table(orders).schema]
    copied = ", ".join("9007" if name == "id" else f"`{name}`" for name in columns)
    for statement in (
        f"INSERT INTO {orders} SELECT {copied} FROM {orders} WHERE id = 7",
        f"UPDATE {orders} SET total = total + 0.01 WHERE id = 7",
        f"DELETE FROM {orders} WHERE id = 8",
        f"DELETE FROM {events} WHERE n = 3 AND t = 'e3'",
    ):
        mirrored.spark.sql(statement)


def night(mirrored: FollowedDatabase, number: int) -> Run:
    """A run that may delete whatever it finds."""
    pipeline = replace(mirrored.base.pipeline, policy=ALL)
    return replace(mirrored.base, pipeline=pipeline, run_id=f"night-{number}")


def day(mirrored: FollowedDatabase, row: int, attempt: str = "") -> Run:
    """The run of the day on which one row of orders lies."""
    start = FIRST_DAY + timedelta(days=row)
    options = {"from": start.isoformat(), "to": (start + timedelta(days=1)).isoformat()}
    pipeline = mirrored.base.pipeline
    spec = BackfillSpec(pipeline.source.tables[0], "day")
    return replace(
        mirrored.base,
        pipeline=replace(pipeline, policy=ALL, backfill=(spec,)),
        run_id=f"backfill__{row}{attempt}",
        options=RunOptions.from_json(options),
    )
