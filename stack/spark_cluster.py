"""A real Spark standalone cluster on loopback: a master and workers, each a process with a folder of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stack import fetch
from stack.guard import descendants
from stack.kafka import quick
from stack.ports import HOST, free_ports
from stack.process import Child, end, spawn, wait_until
from stack.rest import RestError, call

HEAP: Final = "256m"
START_TIMEOUT_S: Final = 120.0
DEPLOY: Final = "org.apache.spark.deploy"
# Without it every executor fails: the worker looks for a build folder to find out its version of Scala.
SCALA: Final = "2.13"


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster. `master`: its address for a driver; `ui`: the master's page, which also answers in JSON."""

    master: str
    ui: str
    child: Child
    workers: tuple[Child, ...]

    def state(self) -> Mapping[str, Any]:
        """What the master says: aliveworkers, cores, activeapps, completedapps, …"""
        state: Mapping[str, Any] = call("GET", f"{self.ui}/json/", timeout=10)
        return state

    def executors(self, worker: Child) -> tuple[int, ...]:
        """The ids of the executors that a worker runs now: the Java processes below its own."""
        own = worker.server_pid
        below = (pid for pid in descendants(own) if pid != own)
        return tuple(pid for pid in below if "CoarseGrainedExecutorBackend" in _command(pid))

    def stop(self) -> None:
        """End the workers, with their executors, and the master."""
        end(*self.workers, self.child)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:  # it has ended
        return ""


def start_spark_cluster(base: Path, logs: Path, *, workers: int = 2, memory: str = "1200m") -> SparkCluster:
    """Start a cluster under `base/spark`, of workers with one core each, and wait until all of them are registered."""
    port, page, *others = free_ports(2 + 2 * workers)
    master, ui = f"spark://{HOST}:{port}", f"http://{HOST}:{page}"
    argv = [*_java("-Dspark.master.rest.enabled=false"), f"{DEPLOY}.master.Master", *_at(port, page)]
    child = spawn("spark-master", argv, log=logs / "spark-master.log", cwd=_folder(base, "master"), env=_env())
    started = [_worker(base, logs, n, [*_at(*others[2 * n : 2 * n + 2]), master], memory) for n in range(workers)]
    cluster = SparkCluster(master, ui, child, tuple(started))
    wait_until(lambda: _alive(cluster, workers), timeout=START_TIMEOUT_S, what=f"Spark on {master}", child=child)
    return cluster


def _worker(base: Path, logs: Path, number: int, where: Sequence[str], memory: str) -> Child:
    name = f"spark-worker-{number}"
    folder = _folder(base, f"worker-{number}")
    limits = ("--cores", "1", "--memory", memory, "--work-dir", str(folder))
    argv = [*_java(), f"{DEPLOY}.worker.Worker", *limits, *where]
    return spawn(name, argv, log=logs / f"{name}.log", cwd=folder, env={**_env(), "SPARK_LOCAL_DIRS": str(folder)})


def _java(*options: str) -> list[str]:
    return [fetch.java(), *quick(HEAP), *options, "-cp", f"{fetch.pyspark_jars()}/*"]


def _at(port: int, page: int) -> tuple[str, ...]:
    return "--host", HOST, "--port", str(port), "--webui-port", str(page)


def _folder(base: Path, name: str) -> Path:
    folder = base / "spark" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _env() -> dict[str, str]:
    """Nothing of this process but what a machine of the cluster would have: its own Python is `python3` on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "JAVA_HOME", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": path,
        "SPARK_HOME": str(fetch.pyspark_jars().parent),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_SCALA_VERSION": SCALA,
    }


def _alive(cluster: SparkCluster, workers: int) -> bool | None:
    try:
        return cluster.state()["aliveworkers"] == workers or None
    except RestError:
        return None
