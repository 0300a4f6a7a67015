"""A recovery step by step on real servers, as the DAG takes it, with the seconds of each step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import close, connector, decide, publish, watermark
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.verify import verify
from tests.adversary.oracle import compare
from tests.adversary.world import Pipe, held

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Run
    from airflow_cdc.parts import Endpoints

Answer = TypeVar("Answer")
App = Callable[["Run"], Mapping[str, Any]]


@dataclass(slots=True)
class Measured:
    """Seconds of every step over a pipeline of `tables` tables; `name` says which in what is printed."""

    tables: int
    name: str = ""
    steps: dict[str, float] = field(default_factory=dict)

    def step(self, name: str, act: Callable[[], Answer]) -> Answer:
        """Do a step and note how long it took."""
        began = time.monotonic()
        answer = act()
        self.steps[name] = round(time.monotonic() - began, 2)
        print(f"{self.name or self.tables} tables: {name} {self.steps[name]} s", file=sys.stderr, flush=True)
        return answer

    @property
    def seconds(self) -> float:
        return sum(self.steps.values())

    @property
    def per_table(self) -> float:
        return self.seconds / self.tables


def driver_settings(run: Run, endpoints: Endpoints) -> dict[str, Any]:
    """What a driver of this run is given, credentials included."""
    return {
        "pipeline": run.pipeline.to_json(),
        "endpoints": endpoints.to_json(run.pipeline),
        "run_id": run.run_id,
        "report_dir": run.report_dir,
    }


def recovered(pipe: Pipe, strategy: str, result: Measured, apps: Mapping[str, App] | None = None) -> Measured:
    """Recover all tables of the pipeline by this strategy; it has to end as MATCH.

    `apps`: how the applications recover and verify are run; by default in this process, in the servers' session.
    """
    spark, run = pipe.servers.spark, pipe.run(approved=True)
    apps = apps or {"recover": lambda one: recover(one, spark), "verify": lambda one: verify(one, spark)}
    decision = result.step("decide", lambda: decide.decide(run, strategy))
    assert not decision["plan"]["refused"], decision["plan"]["reason"]
    result.step("open", lambda: open_recovery(run, Decision.from_json(decision)))
    result.step("stop", lambda: connector.stop(run))
    with held(run):
        result.step("watermark", lambda: watermark.fence_and_watermark(run))
        result.step("recover", lambda: apps["recover"](run))
        result.step("offset", lambda: offset.reset_offset(run))
        result.step("resume", lambda: connector.resume(run))
    done = result.step("verify", lambda: apps["verify"](run))
    assert done["verdict"] == "MATCH", done
    result.step("publish", lambda: publish.publish(run))
    result.step("close", lambda: close.close(run))
    return result


def differing(pipe: Pipe, tables: Iterable[str]) -> int:
    """Rows that are not the same on both sides, by code that shares nothing with the product. Columns have to be the same."""
    count, servers = 0, pipe.servers
    for table in tables:
        comparison = compare(servers.admin, servers.catalog, pipe.database, table, pipe.namespace, generated=True)
        assert not comparison.why, f"{table}: {comparison.why}"
        for example in comparison.examples:
            print(f"{table}: {example}", file=sys.stderr)
        count += comparison.missing + comparison.ghosts
    return count


@contextmanager
def repeating(act: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Do it over and over in a thread, with a pause before each time, until the block ends."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(pause_s):
            act()

    thread = Thread(target=repeat, name="repeating")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
