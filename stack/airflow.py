"""A real Airflow: scheduler (LocalExecutor), dag processor, API server and triggerer, each a guarded process."""

from __future__ import annotations

import base64
import configparser
import hashlib
import io
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stack import fetch
from stack.airflow_client import AirflowClient
from stack.errors import StackError, log_tail
from stack.ports import HOST, free_port
from stack.process import Child, end, spawn, wait_gone, wait_until
from stack.rest import RestError

USER = "admin"
START_TIMEOUT_S = 300.0
MIGRATE_TIMEOUT_S = 300.0
PLUGINS = Path(__file__).with_name("airflow_plugins")
_MIGRATED = "database.ready"
# python, mark, kept, made: what `airflow db migrate` makes of nothing is the same each time, and takes it ten seconds
_MIGRATE = """if [ -f "$2" ]; then cp "$2" "$3"
else "$0" -m airflow db migrate && mkdir -p "$(dirname "$2")" && cp "$3" "$2.$$" && mv "$2.$$" "$2"
fi && touch "$1"
"""
# Seconds that a task waits for an answer of the API server before it is given up. The first one builds what answers, and
# on two busy cores took two minutes; Airflow's own five seconds end a task before it has begun.
_PATIENCE = {"execution_api_timeout": "180"}
# a scheduler that is asked to end waits for its idle workers for ever; nothing in it needs a longer farewell
GRACE_S = 4.0
# nothing is taken from elsewhere: Airflow writes its own airflow.cfg with the database
_MIGRATE_STOCK = '"$0" -m airflow db migrate && touch "$1"'
_STOCK_PASSWORDS = "simple_auth_manager_passwords.json.generated"
_ALWAYS = ("metadatabase",)
_DATABASE = "airflow.db"

TRIGGERER = "triggerer"
# `--skip-serve-logs`: otherwise both listen on fixed ports of all interfaces
COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server", "--host", HOST),  # a flag, so that a stock Airflow is given no setting for it
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    TRIGGERER: ("triggerer", "--skip-serve-logs"),
}


@dataclass(frozen=True, slots=True)
class AirflowSettings:
    """`env` is added to every process: connections as AIRFLOW_CONN_<ID>, the provider's own settings.

    `users` are those beside the admin, with their roles; `components` are what is started of COMPONENTS. `stock`: Airflow
    as `pip install` leaves it, with the airflow.cfg that it writes by itself; `env` and the port are all that is set.
    """

    dags_folder: Path
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    parallelism: int = 8
    paused_at_creation: bool = False
    users: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    components: tuple[str, ...] = tuple(COMPONENTS)
    stock: bool = False


@dataclass(frozen=True, slots=True)
class AirflowServer:
    """A running Airflow. `home` is AIRFLOW_HOME; task logs are in `home/logs`."""

    url: str
    home: str
    user: str
    password: str = field(repr=False)
    settings: AirflowSettings
    children: dict[str, Child] = field(default_factory=dict)

    def client(self, user: str = USER) -> AirflowClient:
        """A REST client that signs in as this user."""
        passwords = json.loads(_passwords(Path(self.home), stock=self.settings.stock).read_text())
        return AirflowClient(self.url, user, passwords[user])

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the Airflow processes: `airflow …` run with it speaks to this Airflow."""
        if self.settings.stock:
            return stock_environment(Path(self.home), self.url, self.settings.env)
        return environment(Path(self.home), self.settings)

    def to_json(self) -> dict[str, Any]:
        settings = {**asdict(self.settings), "dags_folder": str(self.settings.dags_folder)}
        return {**asdict(self), "settings": settings}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AirflowServer:
        kept = value["settings"]
        settings = {
            **kept,
            "dags_folder": Path(kept["dags_folder"]),
            "components": tuple(kept.get("components", COMPONENTS)),
        }
        children = {name: Child.from_json(child) for name, child in value["children"].items()}
        return cls(**{**value, "settings": AirflowSettings(**settings), "children": children})


def start_airflow(base: Path, logs: Path, settings: AirflowSettings, *, keep: bool = False) -> AirflowServer:
    """Make AIRFLOW_HOME under `base/airflow`, create its database, start the components and wait for them."""
    server, migration = prepare(base, logs, settings)
    try:
        server = launch(server, migration, logs, keep=keep)
        return wait_ready(server)
    except BaseException:
        end(migration, *server.children.values())
        raise


def prepare(base: Path, logs: Path, settings: AirflowSettings) -> tuple[AirflowServer, Child]:
    """Make AIRFLOW_HOME and begin to create its database, in a process of its own that `launch` waits for."""
    home = base / "airflow"
    if (home / "airflow.cfg").exists():
        raise StackError(f"{home} holds an Airflow already: wipe it")
    home.mkdir(parents=True, exist_ok=True)
    if settings.stock:
        return _prepare_stock(home, logs, settings)
    port, passwords = free_port(), {name: secrets.token_hex(12) for name in (USER, *settings.users)}
    _private(_passwords(home), json.dumps(passwords))
    _private(home / "airflow.cfg", _config(home, port, settings))
    files = (home / _MIGRATED, _kept_database(settings), home / _DATABASE)
    migrate = ["/bin/sh", "-c", _MIGRATE, sys.executable, *map(str, files)]
    log = logs / "airflow-migrate.log"
    child = spawn("airflow-migrate", migrate, log=log, env=environment(home, settings), cwd=home)
    return AirflowServer(f"http://{HOST}:{port}", str(home), USER, passwords[USER], settings), child


def _prepare_stock(home: Path, logs: Path, settings: AirflowSettings) -> tuple[AirflowServer, Child]:
    """Airflow in an empty home: `airflow db migrate` writes the database and airflow.cfg."""
    server = AirflowServer(f"http://localhost:{free_port()}", str(home), USER, "", settings)
    migrate = ["/bin/sh", "-c", _MIGRATE_STOCK, sys.executable, str(home / _MIGRATED)]
    log = logs / "airflow-migrate.log"
    return server, spawn("airflow-migrate", migrate, log=log, env=server.environment, cwd=home)


def launch(server: AirflowServer, migration: Child, logs: Path, *, keep: bool = False) -> AirflowServer:
    """Start the components once the database is there; returns without waiting for them: see `wait_ready`."""
    wait_gone(migration, MIGRATE_TIMEOUT_S)
    if not (Path(server.home) / _MIGRATED).exists():
        raise StackError(f"airflow db migrate failed; {migration.log}:\n{log_tail(Path(migration.log))}")
    return replace(
        server, children={name: _launch(server, name, logs, keep=keep) for name in server.settings.components}
    )


def _kept_database(settings: AirflowSettings) -> Path:
    """Where the empty database of this Airflow under these options is kept. It holds no secret and no connection."""
    told = f"{version('apache-airflow')} {json.dumps(_plain(settings.options), sort_keys=True)}"
    return Path(sys.prefix) / "share" / "airflow-database" / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.db"


def restart_component(server: AirflowServer, name: str, logs: Path, *, keep: bool = False) -> AirflowServer:
    """End one component (if it runs) and start it again; returns without waiting: see `wait_ready`."""
    end(server.children[name])
    return replace(server, children={**server.children, name: _launch(server, name, logs, keep=keep)})


def wait_ready(server: AirflowServer) -> AirflowServer:
    """Wait until the API says that every component is healthy."""
    for name, child in server.children.items():
        wait_until(
            partial(said, server, name),
            timeout=START_TIMEOUT_S,
            what=f"Airflow's {name} at {server.url}",
            child=child,
            interval=0.5,
        )
    return server


def unhealthy(server: AirflowServer) -> tuple[str, ...] | None:
    """Components that do not report as healthy; None while the API itself does not answer."""
    try:
        health = AirflowClient(server.url, server.user, server.password).health()
    except RestError:
        return None
    asked = (*_ALWAYS, *(name.replace("-", "_") for name in server.settings.components if name != "api-server"))
    return tuple(name for name in asked if health.get(name, {}).get("status") != "healthy")


def said(server: AirflowServer, component: str) -> str | None:
    """What the API says of one component: its address, or None while it is not healthy."""
    missing = unhealthy(server)
    if missing is None or component.replace("-", "_") in missing:
        return None
    return server.url


def environment(home: Path, settings: AirflowSettings) -> dict[str, str]:
    """The environment of every Airflow process, and of the commands a test runs beside it.

    Secrets of Airflow itself stand in airflow.cfg (0600), not here: a task's children inherit this.
    """
    programs = str(Path(sys.executable).parent)
    java_home = str(Path(fetch.java()).resolve().parents[1])
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONFIG": str(home / "airflow.cfg"),
        "PATH": os.pathsep.join((programs, os.environ.get("PATH", os.defpath))),
        "JAVA_HOME": java_home,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONWARNINGS": "ignore",
        "PYTHONUNBUFFERED": "1",
        # usage statistics would leave the machine
        "GX_ANALYTICS_ENABLED": "false",
        **settings.env,
    }


def stock_environment(home: Path, url: str, env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a shell in which `airflow` works, with `env`, the address and patience: nothing else is set."""
    programs = str(Path(sys.executable).parent)
    foreign = ("AIRFLOW", "PYSPARK", "SPARK", "GX_")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "PATH": os.pathsep.join((programs, os.environ.get("PATH", os.defpath))),
        "AIRFLOW__API__PORT": url.rpartition(":")[2],
        "AIRFLOW__API__BASE_URL": url,
        **{f"AIRFLOW__WORKERS__{key.upper()}": value for key, value in _PATIENCE.items()},
        **env,
    }


def _launch(server: AirflowServer, name: str, logs: Path, *, keep: bool) -> Child:
    argv = [sys.executable, "-m", "airflow", *COMPONENTS[name]]
    log = logs / f"airflow-{name}.log"
    home = Path(server.home)
    return spawn(f"airflow-{name}", argv, log=log, keep=keep, grace=GRACE_S, env=server.environment, cwd=home)


def _config(home: Path, port: int, settings: AirflowSettings) -> str:
    """airflow.cfg. A single `%` would be an interpolation: none of the values holds one."""
    sections: dict[str, Mapping[str, str]] = {
        "core": {
            "dags_folder": str(settings.dags_folder.absolute()),
            "plugins_folder": str(PLUGINS),
            "load_examples": "False",
            "executor": "LocalExecutor",
            "parallelism": str(settings.parallelism),
            "max_active_tasks_per_dag": str(settings.parallelism),
            "dags_are_paused_at_creation": str(settings.paused_at_creation),
            "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "auth_manager": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
            "simple_auth_manager_users": ",".join(
                f"{name}:{role}" for name, role in {USER: "admin", **settings.users}.items()
            ),
            "simple_auth_manager_passwords_file": str(_passwords(home)),
            "execution_api_server_url": f"http://{HOST}:{port}/execution/",
        },
        # several processes write: a writer waits for another instead of failing
        "database": {
            "sql_alchemy_conn": f"sqlite:///{home / _DATABASE}?timeout=20",
            "load_default_connections": "False",  # encrypted with this home's key, in a database that is kept for others
        },
        "api": {
            "host": HOST,
            "port": str(port),
            "base_url": f"http://{HOST}:{port}",
            "workers": "1",
            "secret_key": secrets.token_hex(24),
        },
        "api_auth": {"jwt_secret": secrets.token_urlsafe(48)},
        "workers": _PATIENCE,
        "scheduler": {"scheduler_heartbeat_sec": "1", "scheduler_idle_sleep_time": "0.5"},
        # a parse costs a second or two of one core, and the files do not change while this runs
        "dag_processor": {"refresh_interval": "30", "min_file_process_interval": "300"},
        "logging": {"base_log_folder": str(home / "logs")},
    }
    parser = configparser.ConfigParser(interpolation=None)
    for source in (sections, _plain(settings.options)):
        parser.read_dict(source)
    return _written(parser)


def _plain(options: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {section: dict(values) for section, values in options.items()}


def _passwords(home: Path, *, stock: bool = False) -> Path:
    return home / (_STOCK_PASSWORDS if stock else "passwords.json")


def _written(parser: configparser.ConfigParser) -> str:
    out = io.StringIO()
    parser.write(out)
    return out.getvalue()


def _private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
