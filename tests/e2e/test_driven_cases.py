"""Tables to which something happens at every moment, on a stock Airflow by commands alone; every row is compared."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stack.mysql import MySqlServer
from stack.shop.check import check
from tests.e2e.cases import PIECES, SCHEMA, Case
from tests.e2e.driven import Answer, Driven, join, lake_of, start
from tests.e2e.test_driven import RECOVERY, RUNNING, applied, begun, done, ended, verdicts, wait_sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
# a table that changes while it is recovered may take another try
TRIES = 6
AT_WORK = ("running", "success")
REACHED = (*AT_WORK, "failed", "upstream_failed")


@dataclass
class Scene:
    """A piece of the cases in its world. `said`: what each command ended with, in order."""

    piece: str
    cases: tuple[Case, ...]
    driven: Driven
    said: list[Any] = field(default_factory=list)

    def happens(self, moment: str) -> None:
        """All that is to come at this moment, side by side: one that waits for the recovery's hold keeps no other waiting."""
        with ThreadPoolExecutor(len(self.cases)) as pool:
            list(pool.map(partial(session, self.driven.mysql), (one.at(moment) for one in self.cases)))

    def unequal(self) -> dict[str, list[str]]:
        """Table → how its rows differ, by code that shares nothing with the product."""
        server = self.driven.mysql
        admin = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        names = [case.table for case in self.cases]
        return {
            one.table: one.examples
            for one in check(admin, lake_of(self.driven.stack.folder), SCHEMA, self.driven.pipeline, names)
            if not one.equal
        }

    def answered(self, answer: Answer, what: str) -> Answer:
        """The answer, which is kept with what the command was for."""
        self.said.append({"what": what, "status": answer.status, "err": answer.err[-2000:]})
        return answer

    def keep(self, **facts: Any) -> None:
        """Write what was seen so far where it stays."""
        Path("build").mkdir(exist_ok=True)
        text = json.dumps({"said": self.said, **facts}, indent=2, ensure_ascii=False)
        Path(f"build/driven-cases-{self.piece}.json").write_text(f"{text}\n")


def make(cases: Iterable[Case], server: MySqlServer) -> None:
    server.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
    for case in cases:
        name = f"`{SCHEMA}`.`{case.table}`"
        session(server, (f"CREATE TABLE {name} ({case.columns})", *case.at("rows")))


def session(server: MySqlServer, statements: Iterable[str]) -> None:
    """Carry out statements in one session, as a client that commits each."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture(scope="module", params=PIECES)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    cases = PIECES[request.param]
    tables = tuple((SCHEMA, case.table) for case in cases)
    with ExitStack() as ends:
        if folder := os.environ.get(RUNNING):
            driven = join(Path(folder), f"cases_{request.param}", tables, partial(make, cases))
        else:
            driven = start(tmp_path_factory.mktemp("cases") / "world", tables, partial(make, cases))
            ends.enter_context(driven.stack)
        dag = f"cdc_apply__{driven.pipeline}"
        driven.client.wait_dag(dag)
        driven.client.set_paused(dag, False)
        yield Scene(request.param, cases, driven)


def test_whatever_happens_to_a_table_its_rows_are_equal_or_it_is_named(scene: Scene) -> None:
    world = scene.driven
    recovered(scene)
    scene.keep()
    scene.happens("after")
    wait_sent(world)
    process, _ = begun(world, f"cdc_apply__{world.pipeline}", "apply", "apply", world.pipeline, "--wait", "-o", "json")
    scene.happens("applying")
    applies = (scene.answered(ended(process, 3600), "apply beside statements"), scene.answered(applied(world), "apply"))
    differing, again = scene.unequal(), {name for answer in applies for name in read_again(answer)}
    outcomes = {case.name: outcome(case, differing, again) for case in scene.cases}
    scene.keep(outcomes=outcomes, unequal=differing)
    assert set(differing) <= {case.table for case in scene.cases if case.named}, differing
    compared = scene.answered(world.cdc("verify", world.pipeline, "-o", "json"), "verify")
    assert {name for name, verdict in verdicts(compared).items() if verdict != "MATCH"} == {
        f"{SCHEMA}.{name}" for name in differing
    }
    done(scene.answered(world.cdc("repair", world.pipeline, "--wait", "-o", "json"), "repair"))
    left = scene.unequal()
    scene.keep(outcomes=outcomes, unequal=differing, left=left)
    assert left == {}


def recovered(scene: Scene) -> None:
    """A first copy while something happens to its tables, tried again as its end says.

    What comes while it compares comes in the first try that gets there.
    """
    world, due = scene.driven, True
    for attempt in range(TRIES):
        process, run_id = begun(world, RECOVERY, "recover", "recover", world.pipeline, "--wait", "-o", "json")
        if not attempt:
            scene.happens("reading")
        compares = world.client.wait_task(RECOVERY, run_id, "verify", REACHED, timeout=1800)["state"] in AT_WORK
        if compares and due:
            scene.happens("verifying")
            due = False
        answer = scene.answered(ended(process, 3600), "recover again" if attempt else "recover")
        if answer.status == 0:
            break
    done(answer)
    assert not due


def read_again(answer: Answer) -> set[str]:
    """The tables that an apply read again."""
    return {name.partition(".")[2] for name, one in answer.data.get("tables", {}).items() if one.get("reread")}


def outcome(case: Case, differing: Collection[str], again: Collection[str]) -> str:
    """What became of a table by the applies."""
    if case.table in differing:
        return "differs until the repair"
    return "equal, read again" if case.table in again else "equal"
