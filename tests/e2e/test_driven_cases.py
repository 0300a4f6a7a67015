"""Tables to which something happens at every moment, on a stock Airflow by commands alone; every row is compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stack.mysql import MySqlServer
from stack.shop.check import check
from tests.e2e.cases import CASES, SCHEMA
from tests.e2e.driven import PIPELINE, Answer, Driven, lake_of, start
from tests.e2e.test_driven import RECOVERY, applied, begun, done, ended, verdicts, wait_sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
TABLES = tuple((SCHEMA, case.table) for case in CASES)
# a table that changes while it is recovered may take another try
TRIES = 6


def make(server: MySqlServer) -> None:
    server.execute(f"CREATE DATABASE {SCHEMA}")
    for case in CASES:
        name = f"`{SCHEMA}`.`{case.table}`"
        session(server, (f"CREATE TABLE {name} ({case.columns})", *case.at("rows")))


def session(server: MySqlServer, statements: Iterable[str]) -> None:
    """Carry out statements in one session, as a client that commits each."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def happens(world: Driven, moment: str) -> None:
    for case in CASES:
        if statements := case.at(moment):
            session(world.mysql, statements)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    made = start(tmp_path_factory.mktemp("cases") / "world", TABLES, make)
    with made.stack:
        dag = f"cdc_apply__{PIPELINE}"
        made.client.wait_dag(dag)
        made.client.set_paused(dag, False)
        yield made


def unequal(world: Driven) -> dict[str, list[str]]:
    """Case → how its rows differ, by code that shares nothing with the product."""
    server = world.mysql
    admin = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    names = [case.table for case in CASES]
    return {
        one.table: one.examples
        for one in check(admin, lake_of(world.stack.folder), SCHEMA, PIPELINE, names)
        if not one.equal
    }


def test_whatever_happens_to_a_table_its_rows_are_equal_or_it_is_named(world: Driven) -> None:
    said: list[Any] = []
    process, run_id = begun(world, RECOVERY, "recover", "recover", PIPELINE, "--wait", "-o", "json")
    happens(world, "reading")
    world.client.wait_task(
        RECOVERY, run_id, "verify", ("running", "success", "failed", "upstream_failed"), timeout=1800
    )
    happens(world, "verifying")
    answer = ended(process, 3600)
    said.append([answer.status, answer.err])
    for _ in range(TRIES):
        if answer.status == 0:
            break
        answer = world.cdc("recover", PIPELINE, "--wait", "-o", "json")
        said.append([answer.status, answer.err])
    done(answer)
    happens(world, "after")
    wait_sent(world)
    process, _ = begun(world, f"cdc_apply__{PIPELINE}", "apply", "apply", PIPELINE, "--wait", "-o", "json")
    happens(world, "applying")
    said.append([ended(process, 3600).status])
    applied(world)
    found = unequal(world)
    keep({"said": said, "unequal after apply": found})
    named = {case.table for case in CASES if case.named}
    assert set(found) <= named, found
    compared: Answer = world.cdc("verify", PIPELINE, "-o", "json")
    assert {name for name, verdict in verdicts(compared).items() if verdict != "MATCH"} == {
        f"{SCHEMA}.{name}" for name in found
    }
    done(world.cdc("repair", PIPELINE, "--wait", "-o", "json"))
    assert unequal(world) == {}


def keep(facts: dict[str, Any]) -> None:
    Path("build").mkdir(exist_ok=True)
    Path("build/driven-cases.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
