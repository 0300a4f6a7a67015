"""Real PostgreSQL servers from the cache: builds for any glibc Linux, which hold initdb, pg_ctl and postgres alone."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from stack import fetch
from stack.errors import StackError, UnavailableError, log_tail
from stack.installation import User
from stack.ports import HOST, free_port
from stack.process import Child, end, spawn, wait_until
from stack.versions import POSTGRES_DEFAULT, POSTGRES_TESTED

INIT_TIMEOUT_S = 120.0
START_TIMEOUT_S = 60.0
_TARBALL: Final = "postgres-linux-x86_64.txz"
_ADMIN: Final = "postgres"
# postgres refuses to run as root, and a folder below a private one cannot be handed to another user: a user namespace
# of its own makes root an ordinary user for it, and changes no owner. The name of user 1000 is of no account.
_AS_ORDINARY_USER: Final = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
# entering the namespace clears what ends the server with its guard (PR_SET_PDEATHSIG)
_ENDS_WITH_ITS_GUARD: Final = ("setpriv", "--pdeathsig", "KILL")

# shared by every server of the tests: a logical log, and room for the slots of several connectors
SETTINGS: Final[dict[str, str]] = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "60",
    "max_connections": "120",
    "unix_socket_directories": "''",
    "shared_buffers": "128MB",
    # a killed server loses nothing: the page cache outlives the process
    "fsync": "off",
}


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """What differs between the servers of one stack. `extra` are lines of postgresql.conf, name → value."""

    name: str = "postgres"
    series: str = POSTGRES_DEFAULT
    extra: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.series not in POSTGRES_TESTED:
            raise UnavailableError(f"PostgreSQL {self.series}: known are {', '.join(POSTGRES_TESTED)}")


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server. `user`/`password` are the administrator's; `cdc` may read, `debezium` may replicate as well."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    cdc: User
    debezium: User
    version: str
    settings: PostgresSettings
    folder: str
    child: Child

    def connect(self, user: User | None = None, **options: Any) -> Any:
        """A psycopg connection (autocommit) as the administrator or as the given user."""
        import psycopg

        login = user or User(self.user, self.password)
        defaults: dict[str, Any] = {"autocommit": True, "connect_timeout": 10, "dbname": _ADMIN}
        return psycopg.connect(
            host=self.host, port=self.port, user=login.user, password=login.password, **(defaults | options)
        )

    def execute(self, *statements: str, dbname: str = _ADMIN) -> list[tuple[Any, ...]]:
        """Run statements as the administrator; rows of the last one, [] if it has none."""
        with self.connect(dbname=dbname) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PostgresServer:
        parts: dict[str, Any] = {
            "cdc": User(**value["cdc"]),
            "debezium": User(**value["debezium"]),
            "settings": PostgresSettings(**value["settings"]),
            "child": Child.from_json(value["child"]),
        }
        return cls(**{**value, **parts})


def home(series: str) -> Path:
    """The unpacked programs of a series, a key of POSTGRES_TESTED."""
    jars = f"postgres{series}"
    jar, checksum = fetch.set_jars(jars)[0], fetch.jars_of(jars)[0].sha256
    unpacked = fetch.cache_dir() / f"postgres-{POSTGRES_TESTED[series]}-{checksum[:12]}"
    with fetch.exclusive(unpacked):
        root = unpacked / "root"
        if not root.exists():
            _unpack(jar, root)
    return root


def start_postgres(
    base: Path, logs: Path, settings: PostgresSettings | None = None, *, keep: bool = False
) -> PostgresServer:
    """Initialise and start a server under `base/<name>`; returns without waiting: see `wait_ready`."""
    wanted = settings or PostgresSettings()
    folder = base / wanted.name
    if (folder / "data").exists():
        raise StackError(f"{folder} holds a data folder already: wipe it, or call restart_postgres")
    server = PostgresServer(
        host=HOST,
        port=free_port(),
        user=_ADMIN,
        password=_password(),
        cdc=User("cdc", _password()),
        debezium=User("debezium", _password()),
        version=POSTGRES_TESTED[wanted.series],
        settings=wanted,
        folder=str(folder),
        child=Child(wanted.name, -1, -1, str(logs / f"{wanted.name}.log")),
    )
    _initialise(server)
    return _launch(server, keep=keep)


def restart_postgres(server: PostgresServer, *, keep: bool = False) -> PostgresServer:
    """End a server (if it runs) and start it again on its data, port and passwords."""
    hang_up(server)
    end(server.child)
    return wait_ready(_launch(server, keep=keep))


def wait_ready(server: PostgresServer) -> PostgresServer:
    """Wait until the server answers; makes its users the first time, and records the version it states."""
    version = wait_until(
        lambda: server_version(server),
        timeout=START_TIMEOUT_S,
        what=f"{server.settings.name} on port {server.port}",
        child=server.child,
        interval=0.05,
    )
    _ensure_users(server)
    return replace(server, version=version)


def hang_up(server: PostgresServer) -> None:
    """Ask for a fast end, if the server runs: asked by SIGTERM, it waits until its last client has gone."""
    with suppress(IndexError, ProcessLookupError):
        os.kill(server.child.server_pid, signal.SIGINT)


def server_version(server: PostgresServer) -> str | None:
    """The version a server states, None while it does not answer."""
    import psycopg

    try:
        return str(server.execute("SHOW server_version")[0][0])
    except psycopg.OperationalError:
        return None


def _launch(server: PostgresServer, *, keep: bool) -> PostgresServer:
    program = home(server.settings.series) / "bin" / "postgres"
    argv = [*_as_ordinary_user(), str(program), "-D", str(Path(server.folder) / "data")]
    return replace(server, child=spawn(server.settings.name, argv, log=Path(server.child.log), keep=keep, grace=30))


def _initialise(server: PostgresServer) -> None:
    folder, log = Path(server.folder), Path(server.child.log)
    folder.mkdir(parents=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    initdb = [*_as_ordinary_user(), str(home(server.settings.series) / "bin" / "initdb")]
    options = ["-U", server.user, "-A", "scram-sha-256", "--no-sync", "--locale=C", "-E", "UTF8"]
    with tempfile.NamedTemporaryFile("w", dir=folder) as password, log.open("ab") as out:
        password.write(server.password)
        password.flush()
        argv = [*initdb, "-D", str(folder / "data"), f"--pwfile={password.name}", *options]
        done = subprocess.run(argv, stdout=out, stderr=out, timeout=INIT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise StackError(f"initdb could not fill {folder} (status {done.returncode}); {log}:\n{log_tail(log)}")
    lines = {**SETTINGS, "listen_addresses": f"'{HOST}'", "port": str(server.port), **server.settings.extra}
    with (folder / "data" / "postgresql.conf").open("a") as config:
        config.writelines(f"{name} = {value}\n" for name, value in lines.items())


def _ensure_users(server: PostgresServer) -> None:
    """The two users, as the documentation asks for them; what they may read is granted with the tables."""
    if server.execute("SELECT 1 FROM pg_roles WHERE rolname = 'debezium'"):
        return
    server.execute(
        f"CREATE ROLE debezium LOGIN REPLICATION PASSWORD '{server.debezium.password}'",
        f"CREATE ROLE cdc LOGIN REPLICATION PASSWORD '{server.cdc.password}'",
    )


@cache
def _as_ordinary_user() -> tuple[str, ...]:
    """What has to stand before a command so that PostgreSQL runs it. Raises UnavailableError where root cannot."""
    if os.geteuid() != 0:
        return ()
    argv = (*_AS_ORDINARY_USER, *_ENDS_WITH_ITS_GUARD)
    done = subprocess.run([*argv, "true"], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"PostgreSQL does not run as root, and {argv[0]} fails here: {done.stderr.strip()}")
    return argv


def _unpack(jar: Path, target: Path) -> None:
    part = target.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    with (
        zipfile.ZipFile(jar) as archive,
        archive.open(_TARBALL) as stream,
        tarfile.open(fileobj=stream, mode="r|xz") as tar,
    ):
        tar.extractall(part, filter="data")
    part.rename(target)


def _password() -> str:
    return secrets.token_hex(12)
