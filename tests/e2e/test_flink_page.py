"""docs/systems/flink.md, block by block in a fresh home on a stock Airflow: a job that copies a table, and its recovery."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stack.airflow import AirflowServer
from stack.flink import start_flink
from stack.process import end, wait_until
from stack.rest_catalog import start_rest_catalog
from stack.shop.check import MySqlRows, compare
from tests.e2e.conftest import RUN_SECONDS, parked
from tests.e2e.sink_pages import World, world
from tests.e2e.test_pages import DOCS
from tests.e2e.walking import blocks, walk

# one row in a hundred may go without anybody's approval
MANY = "INSERT INTO crm.people WITH RECURSIVE s(n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM s WHERE n < 300) SELECT n, 'many', NULL FROM s"
LOST = (
    "DELETE FROM crm.people WHERE id = 2",
    "UPDATE crm.people SET name = 'changed' WHERE id = 1",
    "INSERT INTO crm.people VALUES (4, 'Barbara', '1939-11-07')",
    "FLUSH BINARY LOGS",
)
DAG = "cdc_recovery"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_flinks_page(tmp_path: Path) -> None:
    page = DOCS / "systems" / "flink.md"
    steps = blocks(page, "Set up Flink CDC")
    split = next(n for n, step in enumerate(steps) if "cdc recover" in step.text)
    with world(tmp_path, ("mysql",)) as theirs:
        theirs.mysql.execute(MANY)
        warehouse = {"warehouse": f"file://{tmp_path}/lake"}
        catalog = start_rest_catalog(tmp_path / "world", theirs.stack.logs, warehouse)
        flink = start_flink(tmp_path / "flink", sets=("flink-iceberg",))
        (tmp_path / "plans").mkdir()
        mysql = theirs.mysql
        words = {
            "'hostname' = 'db.example', 'port' = '3306'": f"'hostname' = '{mysql.host}', 'port' = '{mysql.port}'",
            "http://catalog.example:8181": catalog.url,
            "http://flink.example:8083": flink.gateway,
            "flink.example:8081": flink.url.removeprefix("http://"),
            "/plans/": f"{tmp_path}/plans/",
            "file:///savepoints": flink.savepoints.as_uri(),
        }

        def to_flink(statements: list[str]) -> None:
            flink.sql(*statements)

        reader = theirs.reader(words, flink=to_flink)
        shown = "\n".join(step.text for step in steps)
        assert [word for word in reader.words if word not in shown] == []
        try:
            walk(reader, steps[:split], "flink-set-up")
            assert "MATCH" in reader.output("cdc verify")
            assert "HEALTHY" in reader.output("cdc diagnose")
            assert re.search(r"\bbad\b", reader.output("cdc doctor")) is None
            loses_its_position(theirs, lambda: flink.cancel("crm"))
            first = len(reader.said)
            with ThreadPoolExecutor(1) as beside:
                asked = beside.submit(approves, theirs.airflow)
                walk(reader, steps[split:], "flink")
                asked.result(timeout=60)
            recovered = "\n".join(reader.said[first:])
            assert "MATCH" in recovered
            assert "HEALTHY" in recovered
            lake = {"type": "rest", "uri": catalog.url}
            rows = of_rows(theirs)
            assert all(one.equal for one in compare(rows, lake, "crm", ["people"]))
        finally:
            flink.stop()
            end(catalog.child)


def of_rows(theirs: World) -> MySqlRows:
    """The source, as the independent check reads it."""
    server = theirs.mysql
    return MySqlRows(
        {"host": server.host, "port": server.port, "user": server.user, "password": server.password}, "crm"
    )


def loses_its_position(theirs: World, stop: Callable[[], None]) -> None:
    """Rows change while the job is down, and the log of it is purged."""
    stop()
    theirs.mysql.execute(*LOST)
    ((newest, *_),) = theirs.mysql.execute("SHOW MASTER STATUS")
    theirs.mysql.execute(f"PURGE BINARY LOGS TO '{newest}'")


def approves(airflow: AirflowServer) -> None:
    """Somebody answers the question under Required Actions."""
    client = airflow.client()

    def asks() -> str | None:
        return next((str(run["dag_run_id"]) for run in client.runs(DAG)), None)

    run_id = wait_until(asks, timeout=RUN_SECONDS, what="the recovery")
    client.wait_task(DAG, run_id, "approve", ("awaiting_input", "deferred"), timeout=RUN_SECONDS)
    parked(client)
    client.answer(DAG, run_id, "approve", "Approve", another_strategy="as planned")
