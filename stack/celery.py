"""A real Airflow with the CeleryExecutor on machines of their own: nothing on a disk is shared.

A machine is a folder that is home, AIRFLOW_HOME and place for temporary files of all that runs on it. What the machines
share is what they share in any such installation: the database, the broker, the keys, and the same settings.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stack import fetch
from stack.airflow import COMPONENTS, USER
from stack.airflow_client import AirflowClient
from stack.errors import StackError
from stack.guard import descendants
from stack.ports import HOST, free_port
from stack.postgres import PostgresServer
from stack.process import Child, end, spawn, wait_until
from stack.rabbitmq import RabbitServer
from stack.rest import RestError

START_TIMEOUT_S: Final = 300.0
GRACE_S: Final = 4.0
CENTRE: Final = "centre"
DATABASE: Final = "airflow"
CONCURRENCY: Final = 4
_PASSWORDS: Final = "simple_auth_manager_passwords.json.generated"
_FOREIGN: Final = ("AIRFLOW", "PYSPARK", "PYTHON", "SPARK", "GX_")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: its folder, the environment in which `airflow` works on it, and what runs there by name."""

    name: str
    folder: Path
    env: Mapping[str, str] = field(repr=False)
    children: dict[str, Child] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """AIRFLOW_HOME."""
        return self.folder / "airflow"

    def airflow(self, python: Path, *words: str) -> None:
        """Run `airflow …` on it. Raises StackError with what it said."""
        argv = [str(python), "-m", "airflow", *words]
        done = subprocess.run(
            argv,
            env=dict(self.env),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise StackError(f"airflow {' '.join(words)} on {self.name}:\n{(done.stdout + done.stderr)[-3000:]}")

    def runs(self, pid: int) -> bool:
        """Whether a process is one of this machine's."""
        return any(pid in descendants(child.pid) for child in self.children.values())

    def lose(self) -> None:
        """End it as a power cut does, and take its disk away."""
        for child in self.children.values():
            for pid in (child.pid, *descendants(child.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda one=child: None if one.alive else True, timeout=30, what=f"{child.name} to be gone")  # type: ignore[misc]
        shutil.move(self.folder, self.folder.with_name(f"{self.folder.name}-lost"))


@dataclass(frozen=True, slots=True)
class CeleryAirflow:
    """A running Airflow: one machine with all but the workers, and machines with a worker each."""

    url: str
    centre: Machine
    workers: tuple[Machine, ...]

    def client(self) -> AirflowClient:
        """A REST client that signs in as the admin."""
        return AirflowClient(self.url, USER, json.loads((self.centre.home / _PASSWORDS).read_text())[USER])

    def machine_of(self, pid: int) -> Machine | None:
        """The worker's machine on which a process runs."""
        return next((machine for machine in self.workers if machine.runs(pid)), None)

    def stop(self) -> None:
        """End everything, the workers first."""
        for machine in (*self.workers, self.centre):
            end(*machine.children.values())


def broker_url(broker: RabbitServer) -> str:
    """The address of a broker as Celery takes it."""
    return f"amqp://{broker.user.user}:{broker.user.password}@{broker.host}:{broker.port}//"


def shared_settings(database: PostgresServer, broker: RabbitServer) -> dict[str, str]:
    """What every machine is told: Airflow's own documentation asks for each, but for the ports and the concurrency."""
    port = free_port()
    login = f"{database.user}:{database.password}@{database.host}:{database.port}/{DATABASE}"
    return {
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(24),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://{HOST}:{port}",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg://{login}",
        "AIRFLOW__CELERY__BROKER_URL": broker_url(broker),
        "AIRFLOW__CELERY__RESULT_BACKEND": f"db+postgresql+psycopg://{login}",
        "AIRFLOW__CELERY__WORKER_CONCURRENCY": str(CONCURRENCY),
    }


def make_machine(base: Path, name: str, python: Path, env: Mapping[str, str]) -> Machine:
    """A machine on which nothing runs yet. `python` is the interpreter that has Airflow installed."""
    folder = base / name
    for part in ("airflow/dags", "tmp"):
        (folder / part).mkdir(parents=True)
    java_home = str(Path(fetch.java()).resolve().parents[1])
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    own = {
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "JAVA_HOME": java_home,
        "PATH": os.pathsep.join((str(python.parent), os.environ.get("PATH", os.defpath))),
    }
    return Machine(name, folder, {**inherited, **own, **env})


def start_celery_airflow(
    logs: Path, python: Path, centre: Machine, workers: tuple[Machine, ...], database: PostgresServer
) -> CeleryAirflow:
    """Create Airflow's database, start every component and wait until all of them answer."""
    database.execute(f"CREATE DATABASE {DATABASE}")
    centre.airflow(python, "db", "migrate")
    running = CeleryAirflow(centre.env["AIRFLOW__API__BASE_URL"], centre, workers)
    try:
        for name, words in COMPONENTS.items():
            centre.children[name] = _spawn(logs, python, centre, name, words)
        for machine in workers:
            words = ("celery", "worker", "--skip-serve-logs", "--celery-hostname", f"{machine.name}@{HOST}")
            machine.children["worker"] = _spawn(logs, python, machine, "worker", words)
        _wait_ready(running)
    except BaseException:
        running.stop()
        raise
    return running


def _spawn(logs: Path, python: Path, machine: Machine, name: str, words: tuple[str, ...]) -> Child:
    title = f"{machine.name}-{name}"
    argv = [str(python), "-m", "airflow", *words]
    return spawn(title, argv, log=logs / f"{title}.log", grace=GRACE_S, env=machine.env, cwd=machine.home)


def _wait_ready(running: CeleryAirflow) -> None:
    """Every component is healthy, and every worker has said so in its log: the API does not know of workers."""
    for name, child in running.centre.children.items():
        wait_until(lambda one=name: _healthy(running, one), timeout=START_TIMEOUT_S, what=name, child=child)  # type: ignore[misc]
    for machine in running.workers:
        child = machine.children["worker"]
        wait_until(lambda log=child.log: _says_ready(log), timeout=START_TIMEOUT_S, what=child.name, child=child)  # type: ignore[misc]


def _healthy(running: CeleryAirflow, component: str) -> bool | None:
    try:
        health = AirflowClient(running.url, USER, "").health()
    except RestError:
        return None
    if component == "api-server":
        return True
    return health.get(component.replace("-", "_"), {}).get("status") == "healthy" or None


def _says_ready(log: str) -> bool | None:
    return " ready." in Path(log).read_text(errors="replace") or None
