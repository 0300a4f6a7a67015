"""One small world for the end-to-end tests: real servers, a real Airflow, the demo's shop and its writer."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.world import PIPELINE, World, airflow_settings, writer
from stack import cluster
from stack.airflow import AirflowServer, AirflowSettings
from stack.airflow_client import AirflowClient
from stack.connect import ConnectWorker
from stack.process import wait_until
from stack.rest import RestError
from stack.shop import connectors, dataset

ROWS = 6_000
EVENTS = "spark-events"
FAR = "far"
SPARK_CONF = "AIRFLOW__CDC__SPARK_CONF"
RUN_SECONDS = 900.0
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the real servers."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)


@dataclass(frozen=True)
class Shop:
    """The running world, and what tests do with it."""

    world: World
    server: AirflowServer
    client: AirflowClient
    counts: Path
    processes: set[str]

    @property
    def worker(self) -> ConnectWorker:
        """The worker that runs its connector."""
        worker = self.world.stack.connect
        assert worker is not None
        return worker

    def trigger(self, dag: str = "cdc_recovery", **conf: Any) -> str:
        """Start a run of a DAG; cdc_recovery is told the pipeline."""
        self.client.wait_dag(dag)
        known = {"pipeline": PIPELINE} if dag == "cdc_recovery" else {}
        return self.client.trigger(dag, {**known, **conf})

    def finish(self, run_id: str, dag: str = "cdc_recovery") -> str:
        """Wait for the end of a run; its state."""
        return self.client.wait_run(dag, run_id, timeout=RUN_SECONDS)

    def said(self, run_id: str, task: str, dag: str = "cdc_recovery") -> str:
        """The end of a task's log, for messages of failed assertions; a task that never ran has none."""
        try:
            return self.client.log(dag, run_id, task)[-4000:]
        except RestError as error:
            return f"(no log of {task}: {error})"


def parked(client: AirflowClient) -> None:
    """Wait until the scheduler knows that the task waits: an answer before that fails the try ("finished with success,
    but is queued"), which a person is never quick enough for. It knows once it has begun two more rounds.
    """
    seen: list[str] = []

    def rounds() -> bool | None:
        beat = str(client.health()["scheduler"]["latest_scheduler_heartbeat"])
        if beat not in seen:
            seen.append(beat)
        return True if len(seen) > 3 else None

    wait_until(rounds, timeout=120, what="two rounds of the scheduler", interval=0.2)


def with_event_log(stack: cluster.Stack) -> AirflowSettings:
    """The demo's Airflow, whose Spark drivers also keep an event log."""
    made = airflow_settings(stack)
    declare(stack.folder / "pipelines.yaml")
    folder = stack.folder / EVENTS
    folder.mkdir(exist_ok=True)
    conf = json.loads(made.env[SPARK_CONF]) | {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri()}
    nowhere = {
        "conn_type": "cdc_mysql",
        "host": "127.0.0.1",
        "port": 1,
        "login": "cdc",
        "extra": {"connect_timeout": 2},
    }
    env = {**made.env, SPARK_CONF: json.dumps(conf), "AIRFLOW_CONN_FAR_MYSQL": json.dumps(nowhere)}
    # a killed supervisor, and the tasks of a killed scheduler, are noticed in half a minute instead of five
    quick = {
        "task_instance_heartbeat_timeout": "30",
        "task_instance_heartbeat_timeout_detection_interval": "5",
        "orphaned_tasks_check_interval": "10",
    }
    return replace(made, env=env, options={"scheduler": quick})


def declare(registry: Path) -> None:
    """Add to the demo's registry how orders are cut into days, and a pipeline whose source is not there."""
    declared = yaml.safe_load(registry.read_text())
    shop = declared["pipelines"][PIPELINE]
    shop["backfill"] = {"table": "shop.orders", "by": "paid_on"}
    far = {
        "source": {**shop["source"], "conn_id": "far_mysql", "tables": ["shop.orders"]},
        "connector": {**shop["connector"], "name": FAR},
        "sink": {**shop["sink"], "namespace": FAR},
    }
    declared["pipelines"][FAR] = {**{key: shop[key] for key in ("transport", "spark")}, **far}
    registry.write_text(yaml.safe_dump(declared, sort_keys=False))


@contextmanager
def again_and_again(look: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call `look` every so many seconds beside the block; an error in it is raised at the block's end."""
    over = threading.Event()

    def keep_looking() -> None:
        while not over.wait(seconds):
            look()

    with ThreadPoolExecutor(1) as beside:
        looking = beside.submit(keep_looking)
        try:
            yield
        finally:
            over.set()
        looking.result()


@contextmanager
def watching_processes() -> Iterator[set[str]]:
    """Every command line that ps shows meanwhile, whole (by itself it cuts them at 80 characters), without its environment."""
    seen = set[str]()

    def look() -> None:
        done = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True)
        seen.update(done.stdout.splitlines())

    with again_and_again(look, 0.5):
        yield seen


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The shop, copied into the lake by its first recovery, with the writer at work."""
    folder = tmp_path_factory.mktemp("e2e") / "world"
    with watching_processes() as processes, cluster.start(folder, airflow_settings=with_event_log) as stack:
        world = World(folder, stack)
        connection = world.mysql.connect(autocommit=False)
        dataset.create(connection)
        dataset.fill(connection, ROWS)
        connection.close()
        settings = connectors.config("shop", world.mysql, world.bootstrap, **{"snapshot.mode": "no_data"})
        worker, server = stack.connect, stack.airflow
        assert worker is not None
        assert server is not None
        with writer(world) as counts:
            connectors.create(worker, "shop", settings)
            wait_until(
                lambda: connectors.stored(worker, "shop") or None, timeout=120, what="the connector's first offset"
            )
            made = Shop(world, server, server.client(), counts, processes)
            run_id = made.trigger()
            state = made.finish(run_id)
            states = made.client.states("cdc_recovery", run_id)
            failed = next((task for task, found in states.items() if found == "failed"), None)
            assert state == "success", f"{states}\n{made.said(run_id, failed) if failed else ''}"
            yield made
