"""One small world for the end-to-end tests: real servers, a real Airflow, the demo's shop and its writer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo import connectors, dataset
from demo.world import PIPELINE, World, airflow_settings, writer
from stack import cluster
from stack.airflow import AirflowServer
from stack.airflow_client import AirflowClient
from stack.process import wait_until

ROWS = 6_000
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

    def trigger(self, dag: str = "cdc_recovery", **conf: Any) -> str:
        """Start a run of a DAG; cdc_recovery is told the pipeline."""
        self.client.wait_dag(dag)
        known = {"pipeline": PIPELINE} if dag == "cdc_recovery" else {}
        return self.client.trigger(dag, {**known, **conf})

    def finish(self, run_id: str, dag: str = "cdc_recovery") -> str:
        """Wait for the end of a run; its state."""
        return self.client.wait_run(dag, run_id, timeout=RUN_SECONDS)

    def said(self, run_id: str, task: str, dag: str = "cdc_recovery") -> str:
        """The end of a task's log, for messages of failed assertions."""
        return self.client.log(dag, run_id, task)[-4000:]


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The shop, copied into the lake by its first recovery, with the writer at work."""
    folder = tmp_path_factory.mktemp("e2e") / "world"
    with cluster.start(folder, airflow_settings=airflow_settings) as stack:
        world = World(folder, stack)
        connection = world.mysql.connect(autocommit=False)
        dataset.create(connection)
        dataset.fill(connection, ROWS)
        connection.close()
        worker = stack.connect
        settings = connectors.config("shop", world.mysql, world.bootstrap, **{"snapshot.mode": "no_data"})
        server = stack.airflow
        assert server is not None
        with writer(world) as counts:
            connectors.create(worker, "shop", settings)
            wait_until(
                lambda: connectors.stored(worker, "shop") or None, timeout=120, what="the connector's first offset"
            )
            made = Shop(world, server, server.client(), counts)
            run_id = made.trigger()
            state = made.finish(run_id)
            states = made.client.states("cdc_recovery", run_id)
            failed = next((task for task, found in states.items() if found == "failed"), None)
            assert state == "success", f"{states}\n{made.said(run_id, failed) if failed else ''}"
            yield made
