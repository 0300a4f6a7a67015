"""Real MySQL servers from the cache: Oracle's 8.0.15 build, 9.7 from Debian packages, or MariaDB (see mariadb.py)."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from stack import debian, fetch, mariadb, stublib, template
from stack.errors import StackError, UnavailableError, log_tail
from stack.installation import Installation, Logins, Make, MySqlSettings, User, log_settings, stated_version
from stack.ports import HOST, free_port
from stack.process import Child, end, spawn, wait_until
from stack.versions import MARIADB, MYSQL_TESTED

__all__ = ["MySqlServer", "MySqlSettings", "User"]

INIT_TIMEOUT_S = 300.0
START_TIMEOUT_S = 240.0
_TARBALL = "mysql-Linux-amd64.tar.gz"
READS_BINLOG = "Binlog Dump"

# what the product's own user and Debezium's need, and nothing else (docs name the same list)
CDC_PRIVILEGES = (
    "SELECT",
    "PROCESS",
    "RELOAD",
    "SHOW DATABASES",
    "LOCK TABLES",
    "REPLICATION SLAVE",
    "REPLICATION CLIENT",
    "BACKUP_ADMIN",
    "XA_RECOVER_ADMIN",
)
DEBEZIUM_PRIVILEGES = ("SELECT", "RELOAD", "SHOW DATABASES", "LOCK TABLES", "REPLICATION SLAVE", "REPLICATION CLIENT")


@dataclass(frozen=True, slots=True)
class MySqlServer:
    """A running server. `user`/`password` are root's; `cdc` and `debezium` hold the least privileges they need."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    cdc: User
    debezium: User
    version: str
    auth_plugin: str
    settings: MySqlSettings
    folder: str
    child: Child

    @property
    def datadir(self) -> Path:
        return Path(self.folder) / "data"

    def connect(self, user: User | None = None, **options: Any) -> Any:
        """A PyMySQL connection (autocommit) as root or as the given user."""
        import pymysql

        login = user or User(self.user, self.password)
        defaults: dict[str, Any] = {"autocommit": True, "connect_timeout": 10, "charset": "utf8mb4"}
        return pymysql.connect(
            host=self.host, port=self.port, user=login.user, password=login.password, **(defaults | options)
        )

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements as root; rows of the last one."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MySqlServer:
        settings = dict(value["settings"])
        settings["extra"] = tuple(settings["extra"])
        return cls(
            **{
                **value,
                "cdc": User(**value["cdc"]),
                "debezium": User(**value["debezium"]),
                "settings": MySqlSettings(**settings),
                "child": Child.from_json(value["child"]),
            }
        )


def installer(series: str) -> Callable[[], Installation]:
    """What makes the programs of a series available. Raises UnavailableError (exit status 2) for an unknown one."""
    makers: dict[str, Callable[[], Installation]] = {
        "8.0": _install_8015,
        "9.7": _install_97,
        **{series: partial(mariadb.install, series, _run_as()) for series in MARIADB},
    }
    if series not in makers:
        raise UnavailableError(f"STACK_MYSQL={series}: known are {', '.join(makers)}")
    return makers[series]


def install(series: str) -> Installation:
    """Make the programs of a series available. Raises UnavailableError (exit status 2) where they can't be had."""
    return installer(series)()


def start_mysql(base: Path, logs: Path, settings: MySqlSettings | None = None, *, keep: bool = False) -> MySqlServer:
    """Initialise (first time) and start a server under `base/<name>`; returns without waiting: see `wait_ready`."""
    wanted = settings or MySqlSettings()
    installation = install(wanted.series)
    folder = base / wanted.name
    fresh = not (folder / "data" / "ibdata1").exists()
    users = (User("root", _password()), User("cdc", _password()), User("debezium", _password()))
    if fresh:
        _initialise(installation, wanted, folder, logs)
    server = MySqlServer(
        host=HOST,
        port=free_port(),
        user=users[0].user,
        password=users[0].password,
        cdc=users[1],
        debezium=users[2],
        version=installation.version,
        auth_plugin=installation.auth_plugin,
        settings=wanted,
        folder=str(folder),
        child=Child(wanted.name, -1, -1, str(logs / f"{wanted.name}.log")),
    )
    if not fresh:
        raise StackError(f"{folder} holds a data folder already: wipe it, or call restart_mysql")
    init_file = _write_private(
        folder / "users.sql", "\n".join(installation.make.users(installation.auth_plugin, users)) + "\n"
    )
    return _launch(server, installation, (f"--init-file={init_file}",), keep=keep)


def restart_mysql(server: MySqlServer, *, keep: bool = False, more: Sequence[str] = ()) -> MySqlServer:
    """Start a stopped server again on its data, port and passwords; `more`: options of this start only."""
    end(server.child)
    return wait_ready(_launch(server, install(server.settings.series), more, keep=keep))


def wait_ready(server: MySqlServer) -> MySqlServer:
    """Wait until the server answers as its root user; records the version it states."""
    version = wait_until(
        lambda: server_version(server),
        timeout=START_TIMEOUT_S,
        what=f"{server.settings.name} on port {server.port}",
        child=server.child,
        interval=0.1,
    )
    (Path(server.folder) / "users.sql").unlink(missing_ok=True)
    return replace(server, version=version)


def hang_up(server: MySqlServer) -> None:
    """End the connections of those who read the server's binlog, if it runs.

    Told to end, a server waits eight seconds for them, and their threads keep a core busy meanwhile.
    """
    import pymysql

    with suppress(pymysql.err.MySQLError, OSError):
        for number, *_, command, _time, _state, _info in server.execute("SHOW PROCESSLIST"):
            if str(command).startswith(READS_BINLOG):
                with suppress(pymysql.err.MySQLError):  # it may have gone by itself
                    server.execute(f"KILL {number}")


def server_version(server: MySqlServer) -> str | None:
    """The version a server states, None while it does not answer."""
    import pymysql

    try:
        return str(server.execute("SELECT VERSION()")[0][0])
    except (pymysql.err.MySQLError, OSError):
        return None


def _launch(server: MySqlServer, installation: Installation, more: Sequence[str], *, keep: bool) -> MySqlServer:
    options = (*_options(installation, server.settings, Path(server.folder)), f"--port={server.port}", *more)
    log = Path(server.child.log)
    child = spawn(
        server.settings.name,
        [*installation.command, *options],
        log=log,
        keep=keep,
        env={**os.environ, **installation.env},
        grace=30,
    )
    return replace(server, child=child)


def server_settings(settings: MySqlSettings) -> dict[str, str]:
    """What every MySQL of this topology runs with, here and in docker-compose.yaml (a test compares them)."""
    gtid = "ON" if settings.gtid else "OFF"
    return {**log_settings(settings), "gtid-mode": gtid, "enforce-gtid-consistency": gtid, "mysqlx": "OFF"}


def _options(installation: Installation, settings: MySqlSettings, folder: Path) -> tuple[str, ...]:
    return (
        *installation.options,
        *_places(folder),
        *(f"--{name}={value}" for name, value in installation.make.settings(settings).items()),
        # relative to the data folder: an absolute path may be longer than a socket's name can be (107 bytes)
        "--socket=mysql.sock",
        f"--pid-file={folder / 'mysqld.pid'}",
        f"--bind-address={HOST}",
        "--skip-name-resolve",
        "--innodb-use-native-aio=0",
        # a killed mysqld loses nothing: the page cache outlives the process
        "--innodb-flush-log-at-trx-commit=2",
        "--sync-binlog=0",
        # the size of performance_schema follows these
        "--max-connections=120",
        "--table-open-cache=600",
        "--table-definition-cache=600",
        *installation.make.options,
        *settings.extra,
    )


def _places(folder: Path) -> tuple[str, ...]:
    """A server's own folders. MariaDB, started, removes the temporary tables of any other in a shared one."""
    return (f"--datadir={folder / 'data'}", f"--tmpdir={folder / 'tmp'}")


def _initialise(installation: Installation, settings: MySqlSettings, folder: Path, logs: Path) -> None:
    """Fill the data folder: a copy of one that this version filled before, unless options of its own may change that."""
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{settings.name}.log"

    def fill(part: Path) -> None:
        _fill(installation, settings.extra, part, log)
        # the server's own name, which each takes for itself when it starts
        (part / "data" / "auto.cnf").unlink(missing_ok=True)

    if settings.extra:
        fill(folder)
        return

    of = (installation.version, installation.command, installation.options, installation.make.initialise)
    template.copied("mysql", of, folder, fill)


def _fill(installation: Installation, more: Sequence[str], folder: Path, log: Path) -> None:
    for place in ("data", "tmp"):
        (folder / place).mkdir(parents=True)
    argv = [*installation.command, *installation.options, *_places(folder), *installation.make.initialise]
    argv += ["--innodb-use-native-aio=0", *more]
    with log.open("ab") as out:
        done = subprocess.run(
            argv,
            input=installation.make.tables().encode(),
            stdout=out,
            stderr=out,
            timeout=INIT_TIMEOUT_S,
            check=False,
            env={**os.environ, **installation.env},
        )
    if done.returncode != 0:
        raise StackError(f"mysqld could not initialise {folder} (status {done.returncode}); {log}:\n{log_tail(log)}")


def _user_statements(plugin: str, users: Logins) -> tuple[str, ...]:
    """One statement per line, as --init-file wants it; kept out of the binlog so that its history begins empty."""
    root, cdc, debezium = users
    create = "CREATE USER '{0.user}'@'%' IDENTIFIED WITH {1} BY '{0.password}';"
    return (
        "SET SESSION sql_log_bin = 0;",
        "RENAME USER 'root'@'localhost' TO 'root'@'%';",
        f"ALTER USER 'root'@'%' IDENTIFIED WITH {plugin} BY '{root.password}';",
        create.format(cdc, plugin),
        create.format(debezium, plugin),
        f"GRANT {', '.join(CDC_PRIVILEGES)} ON *.* TO 'cdc'@'%';",
        f"GRANT {', '.join(DEBEZIUM_PRIVILEGES)} ON *.* TO 'debezium'@'%';",
    )


_MYSQL: Final = Make(
    settings=server_settings,
    users=_user_statements,
    initialise=("--initialize-insecure",),
    options=("--secure-file-priv=NULL",),
)


def _password() -> str:
    return secrets.token_hex(12)


def _write_private(path: Path, text: str) -> Path:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    return path


def _run_as() -> tuple[str, ...]:
    """Only mysqld as root wants --user; a normal user must not give it."""
    return ("--user=root",) if os.geteuid() == 0 else ()


def _install_8015() -> Installation:
    home = _unpacked_8015()
    return Installation(
        version=MYSQL_TESTED["8.0"],
        command=(str(home / "bin" / "mysqld"),),
        options=(
            "--no-defaults",
            f"--basedir={home}",
            f"--lc-messages-dir={home / 'share'}",
            *_run_as(),
        ),
        auth_plugin="mysql_native_password",
        make=_MYSQL,
        env={"LD_LIBRARY_PATH": _with_stubs(home)},
    )


def _with_stubs(home: Path) -> str:
    stubs = home / "stubs"
    stublib.write_missing(stubs)
    return os.pathsep.join(filter(None, (str(stubs), os.environ.get("LD_LIBRARY_PATH"))))


def _unpacked_8015() -> Path:
    jar = fetch.set_jars("mysql8015")[0]
    checksum = fetch.jars_of("mysql8015")[0].sha256
    home = fetch.cache_dir() / f"mysql-{MYSQL_TESTED['8.0']}-{checksum[:12]}"
    with (fetch.cache_dir() / ".lock-mysql").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            part = home.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            _extract(jar, part)
            part.rename(home)
    return home


def _extract(jar: Path, target: Path) -> None:
    with (
        zipfile.ZipFile(jar) as archive,
        archive.open(_TARBALL) as stream,
        tarfile.open(fileobj=stream, mode="r|gz") as tar,
    ):
        tar.extractall(target, filter="data")


def _install_97() -> Installation:
    root = debian.unpacked(debian.MYSQL_97)
    server = debian.command(root, "usr/sbin/mysqld")
    return Installation(
        version=stated_version(server),
        command=server,
        options=(*debian.server_options(root, root / "usr/share/mysql"), *_run_as()),
        auth_plugin="caching_sha2_password",
        make=_MYSQL,
    )
