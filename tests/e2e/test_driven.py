"""What a person sees who drives the product by `airflow cdc …` alone: a stock Airflow, tables of odd names, one story.

The tests follow on each other, in the order of this file. Rows are compared by PyMySQL and PyIceberg alone.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from stack.airflow_client import FINISHED
from stack.cluster import Stack
from stack.process import wait_until
from stack.shop import connectors
from tests.e2e.driven import DOCUMENTS, PIPELINE, TABLES, Answer, Driven, quoted, start

RECOVERY, REPAIR = "cdc_recovery", "cdc_repair"
ALL = tuple(f"{schema}.{table}" for schema, table in (*TABLES, DOCUMENTS))
# Names the folder of a world that is running: tests from any one on go through it, and leave it as it is.
RUNNING = "DRIVEN_WORLD"
# A step that fails is known within these, and nothing goes on beside it. What it must not wait for is half an hour long; a
# busy machine takes a minute for an end that takes seconds.
CLEAR_END_S = 180.0
pytestmark = [pytest.mark.timeout(3600), pytest.mark.slow]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    if folder := os.environ.get(RUNNING):
        yield Driven(Stack.load(Path(folder)))
        return
    made = start(tmp_path_factory.mktemp("driven") / "world")
    with made.stack:
        for dag in (f"cdc_apply__{PIPELINE}", f"cdc_nightly_consistency__{PIPELINE}"):
            made.client.wait_dag(dag)
            made.client.set_paused(dag, False)
        yield made


def done(answer: Answer, status: int = 0) -> Answer:
    assert answer.status == status, answer
    return answer


def verdicts(answer: Answer) -> Mapping[str, str]:
    return {one["table"]: one["verdict"] for one in answer.data["report"]["tables"]}


def matching(*tables: str) -> Mapping[str, str]:
    return dict.fromkeys(tables, "MATCH")


def begun(world: Driven, dag: str, task: str, *words: str) -> tuple[subprocess.Popen[str], str]:
    """A command that waits, as soon as this task of its run is at work; its process and its run."""
    before = [run["dag_run_id"] for run in world.client.runs(dag)]
    process = world.begin(*words)
    run_id = wait_until(
        lambda: next((one["dag_run_id"] for one in world.client.runs(dag) if one["dag_run_id"] not in before), None),
        timeout=120,
        what="the run",
    )
    world.client.wait_task(dag, run_id, task, ("running", "success"), timeout=300)
    return process, run_id


def ended(process: subprocess.Popen[str], timeout: float = 1800.0) -> Answer:
    with process:
        out, err = process.communicate(timeout=timeout)
    return Answer(process.returncode, out, err)


def left_running(world: Driven, dag: str, run_id: str) -> list[str]:
    """Tasks of an ended run that go on."""
    assert world.client.run(dag, run_id)["state"] in FINISHED
    return [name for name, state in world.client.states(dag, run_id).items() if state in ("running", "queued")]


def test_tables_of_any_name_are_recovered_and_proven(world: Driven) -> None:
    answer = done(world.cdc("recover", PIPELINE, "--wait", "-o", "json"))
    assert verdicts(answer) == matching(*ALL)
    assert answer.data["seconds"] > 0
    assert set(answer.data["tasks"].values()) == {"success"}, answer.data["tasks"]
    assert "MATCH, run" in answer.err
    assert world.mirrored() == world.rows()
    proven = {one["name"] for one in world.client.call("GET", "/assets", only_active=False, limit=100)["assets"]}
    assert len(proven) == len(ALL)
    assert {f"cdc://{PIPELINE}/proven/odd.a", f"cdc://{PIPELINE}/proven/odd.a%23b"} < proven
    assert done(world.cdc("diagnose", PIPELINE, "-o", "json")).data["code"] == "HEALTHY"


# a TRUNCATE that no event tells of, beside statements that do not change the table's number by themselves
TRUNCATED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("odd", "a#b"): ("CREATE INDEX i ON {t} (v)", "TRUNCATE TABLE {t}"),
    ("odd", "Größe"): ("TRUNCATE TABLE {t}", "ALTER TABLE {t} ADD COLUMN extra INT"),
    ("odd4", 'a"b'): ("TRUNCATE TABLE {t}", "ALTER TABLE {t} COMMENT 'new'"),
    ("odd", "☃"): ("TRUNCATE TABLE {t}", "CREATE INDEX i ON {t} (v)", "DROP INDEX i ON {t}"),
}


def test_a_truncate_beside_other_ddl_leaves_no_ghost(world: Driven) -> None:
    for number, (table, statements) in enumerate(TRUNCATED.items()):
        name = quoted(*table)
        insert = f"INSERT INTO {name} (id, v) VALUES (7, 'after {number}')"
        world.execute(*(one.format(t=name) for one in statements), insert)
    world.execute(f"DELETE FROM {quoted('odd2', 'a b')} WHERE id = 1")
    answer = applied(world)
    assert {name for name, one in answer.data["tables"].items() if one.get("reread")} == {
        f"{schema}.{table}" for schema, table in TRUNCATED
    }
    assert world.mirrored() == world.rows()


def applied(world: Driven, status: int = 0) -> Answer:
    """An apply of all that was written until now."""
    wait_sent(world)
    return done(world.cdc("apply", world.pipeline, "--wait", "-o", "json"), status)


def wait_sent(world: Driven) -> None:
    """Until the connector has read what the server has executed."""
    connectors.wait_read(world.worker, world.pipeline, world.mysql)


def test_rows_of_a_rolled_back_xa_are_named_compared_and_repaired(world: Driven) -> None:
    """No night has run: the recovery's own comparison is what the counters are compared with."""
    with closing(world.mysql.connect()) as connection, connection.cursor() as cursor:
        for statement in (
            "XA START 'w3'",
            "INSERT INTO odd.a VALUES (900, 'ghost')",
            "UPDATE odd.a SET v = 'changed' WHERE id = 1",
            "XA END 'w3'",
            "XA PREPARE 'w3'",
            "XA ROLLBACK 'w3'",
        ):
            cursor.execute(statement)
    assert done(world.cdc("diagnose", PIPELINE, "-o", "json"), 1).data["code"] == "XA_ROLLED_BACK"
    applied(world)
    assert world.mirrored() != world.rows()
    compared = done(world.cdc("verify", PIPELINE, "-o", "json"), 1)
    assert {name for name, verdict in verdicts(compared).items() if verdict == "MISMATCH"} == {"odd.a"}
    # one verdict everywhere
    diagnosed = done(world.cdc("diagnose", PIPELINE, "-o", "json"), 1).data
    assert diagnosed["code"] == "SINK_DIFFERS", diagnosed
    assert "odd.a" in diagnosed["evidence"]["tables that differ"]
    assert done(world.cdc("proof", PIPELINE, "-o", "json"), 1).data["verdict"] == "MISMATCH"
    assert done(world.cdc("repair", PIPELINE, "--table", "odd.a", "--wait", "-o", "json")).data["keys"].keys() == {
        "odd.a"
    }
    assert world.mirrored() == world.rows()
    assert done(world.cdc("diagnose", PIPELINE, "-o", "json")).data["code"] == "HEALTHY"


def test_a_json_value_that_no_event_carries_is_named_at_the_first_apply(world: Driven) -> None:
    documents = quoted(*DOCUMENTS)
    world.execute(f"INSERT INTO {documents} VALUES (2, JSON_OBJECT('b', CAST(x'ff00fe' AS BINARY)))")
    refused = applied(world, 1)
    # what, where, and what to do, once each
    for said in ("JSON documents hold", "column v of odd.documents (the row with id=2)", "Store them as text"):
        assert refused.err.count(said) == 1, refused
    assert done(world.cdc("diagnose", PIPELINE, "-o", "json"), 1).data["code"] != "HEALTHY"
    world.execute(f"DELETE FROM {documents} WHERE id = 2")


def test_an_update_that_a_session_logs_in_part_is_read_again_at_the_first_apply(world: Driven) -> None:
    documents = quoted(*DOCUMENTS)
    applied(world)  # so that no event of before is what starts the next one
    in_part = f"UPDATE {documents} SET v = JSON_SET(v, '$.a', 2) WHERE id = 1"
    world.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'", in_part)
    answer = applied(world)
    assert [name for name, one in answer.data["tables"].items() if one.get("reread")] == [".".join(DOCUMENTS)]
    assert world.mirrored() == world.rows()
    assert applied(world).data["outcome"].startswith("every table is at the end of its topic")


def test_a_night_now(world: Driven) -> None:
    applied(world)
    answer = done(world.cdc("check", PIPELINE, "--wait", "-o", "json"))
    assert verdicts(answer) == matching(*ALL)
    assert world.mirrored() == world.rows()


def test_a_step_that_fails_ends_what_waits_for_it_and_the_next_command_can_follow(world: Driven) -> None:
    """The connector's user is locked before the hold, which such a change waits for: it can't be resumed, and `verify` waits for that."""
    user = f"'{world.mysql.debezium.user}'@'%'"
    words = ("recover", PIPELINE, "--table", "odd.a", "--strategy", "full_snapshot", "--wait", "-o", "json")
    process, run_id = begun(world, RECOVERY, "stop_connector", *words)
    world.execute(f"ALTER USER {user} ACCOUNT LOCK")
    world.client.wait_task(RECOVERY, run_id, "resume_connector", ("failed", "success"), timeout=900)
    failed = time.monotonic()
    answer = done(ended(process), 1)
    assert time.monotonic() - failed < CLEAR_END_S
    assert "error: resume_connector: " in answer.err, answer
    assert left_running(world, RECOVERY, run_id) == []
    # beside the open recovery: one sentence, at once
    for command in (("repair", PIPELINE, "--dry-run"), ("verify", PIPELINE), ("check", PIPELINE)):
        refused = world.cdc(*command)
        assert refused.status not in (0, 3), refused
        assert "while the recovery of run" in refused.err
        assert refused.err.count("\n") == 1
    assert done(world.cdc("diagnose", PIPELINE, "-o", "json"), 1).data["code"] == "RECOVERY_OPEN"
    world.execute(f"ALTER USER {user} ACCOUNT UNLOCK")
    again = done(world.cdc("recover", PIPELINE, "--wait", "-o", "json"))
    assert verdicts(again) == matching("odd.a")
    assert world.mirrored() == world.rows()


def test_an_alter_in_the_middle_of_a_recovery_ends_in_match_or_in_what_to_do(world: Driven) -> None:
    words = ("recover", PIPELINE, "--table", "odd.a", "--strategy", "full_snapshot", "--wait", "-o", "json")
    process, run_id = begun(world, RECOVERY, "recover", *words)
    world.execute("ALTER TABLE odd.a ADD COLUMN extra INT DEFAULT 5", "INSERT INTO odd.a (id, v) VALUES (8, 'altered')")
    answer = ended(process)
    assert left_running(world, RECOVERY, run_id) == []
    if answer.status:
        assert answer.status == 1, answer
        assert "Clear the task" in answer.err or "airflow cdc" in answer.err, answer
        answer = done(world.cdc("recover", PIPELINE, "--wait", "-o", "json"))
    assert verdicts(answer) == matching("odd.a")
    applied(world)
    assert world.mirrored() == world.rows()
    assert done(world.cdc("diagnose", PIPELINE, "-o", "json")).data["code"] == "HEALTHY"
