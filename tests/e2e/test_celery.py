"""Nothing on a shared disk: Celery workers on machines of their own, Spark on a cluster, warehouse and reports in an object store.

The Airflow is one as `pip install` leaves it, with the wheel, in an environment of its own. All that it is told stands in
docs/how-to/platforms.md.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow.fs
import pytest
import yaml

from demo.world import NAMESPACE, PIPELINE, SPARK, World, writer
from stack import cluster, connections, fetch
from stack.airflow_client import AirflowClient
from stack.celery import CeleryAirflow, Machine, make_machine, shared_settings, start_celery_airflow
from stack.jvm import QUICK
from stack.object_store import BUCKET
from stack.process import wait_until
from stack.rabbitmq import start_rabbitmq
from stack.shop import connectors, dataset
from stack.shop.check import check
from stack.shop.dataset import CATALOG
from stack.shop.gap import make_gap
from stack.spark_cluster import SparkCluster, start_spark_cluster
from tests.catalogs.catalogs import by_rest
from tests.e2e.test_wheel import pinned

pytestmark = [pytest.mark.minutes, pytest.mark.timeout(3000)]
DAG = "cdc_recovery"
ROWS = 6_000
TABLES = ("customers", "orders")
RUN_SECONDS = 1200.0
REPORTS = f"{BUCKET}/cdc/reports"
EVIDENCE = Path("build/celery.txt")
# beside the wheel: what Airflow with Celery on PostgreSQL needs
FURTHER = (
    "apache-airflow-providers-celery==3.26.0",
    "celery==5.6.3",
    "kombu==5.7.0",
    "asyncpg==0.32.0",
    "psycopg[binary]",
)
# platforms.md asks for the first; a lost worker is noticed in a minute instead of five
SETTINGS = {
    "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "3",
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__CDC__APPLY_SCHEDULE": "none",  # the test says when
    "AIRFLOW__CDC__NIGHTLY_SCHEDULE": "none",
}
ON_THE_CLUSTER = {
    "spark.executor.memory": "800m",
    "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {QUICK}",
    "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {QUICK}",
}


@dataclass
class Away:
    """The running world, and what was seen in it."""

    world: World
    airflow: CeleryAirflow
    client: AirflowClient
    spark: SparkCluster
    lake: dict[str, str]
    bucket: Path
    seen: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def note(self, line: str) -> None:
        """A line of the evidence."""
        self.seen.append(f"{time.monotonic() - self.began:6.1f} s  {line}")
        EVIDENCE.parent.mkdir(exist_ok=True)
        EVIDENCE.write_text("\n".join(self.seen) + "\n")

    def trigger(self, dag: str = DAG) -> str:
        """A run of a DAG by the REST API."""
        self.client.wait_dag(dag)
        self.client.set_paused(dag, False)
        run_id = self.client.trigger(dag, {"pipeline": PIPELINE} if dag == DAG else {})
        self.note(f"{dag} triggered")
        return run_id

    def finish(self, run_id: str, dag: str = DAG) -> None:
        """Wait for its end, which must be a good one."""
        state = self.client.wait_run(dag, run_id, timeout=RUN_SECONDS)
        states = self.client.states(dag, run_id)
        self.note(f"{dag}: {state}")
        failed = [task for task, found in states.items() if found == "failed"]
        assert state == "success", f"{states}\n{''.join(self.log(task) for task in failed)}"

    def log(self, task: str) -> str:
        """The ends of a task's logs, wherever it ran."""
        homes = [machine.home / "logs" for machine in self.airflow.workers]
        logs = [log for home in homes for log in home.rglob(f"task_id={task}/*.log")]
        return "".join(f"\n--- {log}\n{log.read_text()[-6000:]}" for log in sorted(logs))

    def report(self, run_id: str) -> dict[str, Any]:
        """The report of a run, as it lies in the object store."""
        store = pyarrow.fs.S3FileSystem(
            access_key=self.lake["s3.access-key-id"],
            secret_key=self.lake["s3.secret-access-key"],
            endpoint_override=self.lake["s3.endpoint"],
            region=self.lake["client.region"],
        )
        found = store.get_file_info(pyarrow.fs.FileSelector(REPORTS, recursive=True))
        read = (store.open_input_file(one.path).read() for one in found if one.base_name == "report.json")
        return next(one for one in map(json.loads, read) if one["run_id"] == run_id)

    def data_files(self) -> int:
        """How many files of rows the warehouse has."""
        return sum(1 for _ in (self.bucket / "warehouse").rglob("*.parquet"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and Celery: the one named by CDC_CELERY_VENV, or a new one."""
    if ready := os.environ.get("CDC_CELERY_VENV"):
        return Path(ready) / "bin" / "python"
    made = pinned(tmp_path_factory.mktemp("celery"))
    got = made.run("pip", "install", "--quiet", "--constraint", str(made.constraints), *FURTHER)
    assert got.returncode == 0, got.stderr[-3000:]
    return made.bin / "python"


@pytest.fixture(scope="module")
def away(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Away]:
    """The shop with its connector, an empty lake, and an Airflow that knows both."""
    base = tmp_path_factory.mktemp("away")
    with (
        by_rest(base) as lake,
        cluster.start(base / "world", (*cluster.ALL, "postgres")) as stack,
        spark_on(base, stack.logs) as spark,
    ):
        world = World(stack.folder, stack)
        filled(world)
        with airflow_on(base / "machines", python, world, dict(lake), spark) as airflow:
            yield Away(world, airflow, airflow.client(), spark, dict(lake), base / "object-store" / "data" / BUCKET)


@contextmanager
def spark_on(base: Path, logs: Path) -> Iterator[SparkCluster]:
    running = start_spark_cluster(base, logs)
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def airflow_on(
    base: Path, python: Path, world: World, lake: dict[str, str], spark: SparkCluster
) -> Iterator[CeleryAirflow]:
    """Airflow on three machines, on each of which a user has put the DAG files and pipelines.yaml."""
    logs, database = world.stack.logs, world.stack.postgres["postgres"]
    registry = declared(world)
    with ExitStack() as ending:
        broker = start_rabbitmq(base.parent, logs)
        ending.callback(broker.stop)
        env = {**shared_settings(database, broker), **SETTINGS, **told(world, lake, spark)}
        centre, *workers = [make_machine(base, name, python, env) for name in ("centre", "one", "two")]
        for machine in (centre, *workers):
            machine.airflow(python, "cdc", "init", "--stub", str(machine.home / "dags"))
            (machine.home / "pipelines.yaml").write_text(registry)
        running = start_celery_airflow(logs, python, centre, tuple(workers), database)
        ending.callback(running.stop)
        yield running


def declared(world: World) -> str:
    """pipelines.yaml, of a few tables."""
    registry = yaml.safe_load(world.write_registry().read_text())
    registry["pipelines"][PIPELINE]["source"]["tables"] = [f"{dataset.SCHEMA}.{table}" for table in TABLES]
    return yaml.safe_dump(registry, sort_keys=False)


def told(world: World, lake: Mapping[str, str], spark: SparkCluster) -> dict[str, str]:
    """The pipeline's connections, where its reports are, and Spark's settings."""
    host, _, port = spark.master.rpartition(":")
    extra = {"endpoint_url": lake["s3.endpoint"], "region_name": lake["client.region"]}
    login = {"login": lake["s3.access-key-id"], "password": lake["s3.secret-access-key"]}
    own = connections.variables(
        {
            CATALOG: connections.to_lake(lake),
            "spark_default": {**connections.to_spark(host), "port": int(port)},
            "reports": {"conn_type": "aws", **login, "extra": extra},
        }
    )
    jars = (*fetch.set_jars("spark"), *fetch.set_jars("spark-s3"))
    return {
        **world.connections(),
        **own,
        "AIRFLOW__CDC__REPORT_DIR": f"s3://reports@{REPORTS}",
        "AIRFLOW__CDC__SPARK_CONF": json.dumps(SPARK | ON_THE_CLUSTER),
        "AIRFLOW__CDC__SPARK_JARS": ",".join(map(str, jars)),
    }


def filled(world: World) -> None:
    """Rows, and a connector that reads the changes after them."""
    with closing(world.mysql.connect(autocommit=False)) as connection:
        dataset.create(connection)
        dataset.fill(connection, ROWS)
    worker = world.stack.connect
    assert worker is not None
    settings = connectors.config("shop", world.mysql, world.bootstrap, **{"snapshot.mode": "no_data"})
    connectors.create(worker, "shop", settings)
    wait_until(lambda: connectors.stored(worker, "shop") or None, timeout=120, what="the connector's first offset")


def test_a_purge_is_recovered_though_an_executor_and_a_worker_are_lost(away: Away) -> None:
    worker = away.world.stack.connect
    assert worker is not None
    with writer(away.world):
        away.finish(away.trigger())  # the first copy
        connectors.stop(worker, "shop")
        assert make_gap(away.world.mysql.connect()).purged
        assert "no longer available" in connectors.failure(worker, "shop")
        before = away.data_files()
        run_id = away.trigger()
        on_try = lose_an_executor(away, run_id, before)
        lost = lose_a_worker(away, run_id, "verify")
        away.finish(run_id)
    tries = {name: one["try_number"] for name, one in away.client.tasks(DAG, run_id).items()}
    assert (tries["recover"], tries["verify"] > 1) == (on_try, True), tries
    assert not lost.folder.exists(), "the lost machine has written again"
    made = away.report(run_id)
    away.note(f"report in the object store: {made['problem']}, {made['strategy']}, {made['verdict']}")
    assert (made["verdict"], made["problem"]) == ("MATCH", "GTID_PURGED"), made
    page(away)
    the_sink_equals_the_source(away)


def lose_an_executor(away: Away, run_id: str, before: int) -> int:
    """SIGKILL an executor while rows are being copied: when more files have come, and the driver is not done.

    Returns the task's try, which must be its last one.
    """
    wait_until(lambda: away.data_files() > before or None, timeout=600, what="rows of the snapshot in the warehouse")
    executor = next(pid for worker in away.spark.workers for pid in away.spark.executors(worker))
    os.kill(executor, signal.SIGKILL)
    task = away.client.tasks(DAG, run_id)["recover"]
    assert task["state"] == "running"
    away.note("an executor killed during recover")
    return int(task["try_number"])


def lose_a_worker(away: Away, run_id: str, task: str) -> Machine:
    """End the machine on which a task runs, with all that runs there, and take its disk away."""
    one = away.client.wait_task(DAG, run_id, task, ("running", "failed"), timeout=600)
    machine = away.airflow.machine_of(int(one["pid"]))
    assert machine is not None, one
    running = [
        name
        for name, other in away.client.tasks(DAG, run_id).items()
        if other["state"] == "running" and machine.runs(int(other["pid"] or 0))
    ]
    machine.lose()
    away.note(f"worker {machine.name} killed, its disk taken away; {', '.join(sorted(running))} ran there")
    return machine


def page(away: Away) -> None:
    """The API server shows the report and the comparison's pages, which workers wrote; no disk holds one."""
    headers = {"Authorization": f"Bearer {away.client.token()}"}
    with httpx.Client(base_url=away.airflow.url, headers=headers, timeout=60) as browser:
        runs = browser.get(f"/cdc/pipelines/{PIPELINE}").text
        shown = browser.get(re.findall(rf"/cdc/pipelines/{PIPELINE}/runs/[^\"]+", runs)[0])
        assert (shown.status_code, "GTID_PURGED" in shown.text, "MATCH" in shown.text) == (200, True, True)
        (docs,) = re.findall(r'href="([^"]+/data_docs/index.html)"', shown.text)
        assert browser.get(docs).status_code == 200
    machines = away.airflow.centre.folder.parent
    assert [str(path) for path in machines.rglob("report.json")] == []
    away.note("the page shows both; no machine's disk holds a report")


def the_sink_equals_the_source(away: Away) -> None:
    """By other means: no code shared with the product. The writer has stopped, and all that it wrote is applied."""
    worker, world = away.world.stack.connect, away.world
    assert worker is not None
    with closing(world.mysql.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        target = str(cursor.fetchall()[0][0])

        def covered() -> bool | None:
            cursor.execute("SELECT GTID_SUBSET(%s, %s)", (target, connectors.stored(worker, "shop").get("gtids", "")))
            return True if cursor.fetchall()[0][0] else None

        wait_until(covered, timeout=120, what="the connector to read all that was written")
    apply = f"cdc_apply__{PIPELINE}"
    away.finish(away.trigger(apply), apply)
    checks = check(world.admin, away.lake, dataset.SCHEMA, NAMESPACE, list(TABLES))
    for one in checks:
        away.note(f"{one.table}: {one.source_rows} rows, missing {one.missing}, ghosts {one.ghosts}")
    assert [(one.table, one.missing, one.ghosts, one.examples) for one in checks] == [
        (table, 0, 0, []) for table in TABLES
    ]
