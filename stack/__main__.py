"""`python -m stack up|down|status|wipe|fetch|env|lock|compose-env|sbom|hashes|requirements`: the stack from a shell."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from stack import cluster, fetch, hudi, jvm, mysql
from stack.errors import StackError, log_tail
from stack.mysql import MySqlSettings
from stack.versions import SETS, mysql_series

DEFAULT_DIR = Path("build/stack")


def up(args: argparse.Namespace) -> int:
    """Start; without --keep stay until Ctrl-C, then end everything."""
    settings = [MySqlSettings(max_binlog_size=args.max_binlog_size)]
    if args.nogtid:
        settings.append(MySqlSettings(name="mysql-nogtid", server_id=102, gtid=False))
    services = tuple(args.services.split(",")) if args.services else cluster.ALL
    stack = cluster.start(args.dir, services, keep=args.keep, mysql_settings=settings)
    print(describe(stack))
    if args.keep:
        print(f"end it with: python -m stack down --dir {args.dir}")
        return 0
    print("Ctrl-C ends it", flush=True)
    with stack:
        return _watch(stack)


def _watch(stack: cluster.Stack) -> int:
    """Stay until a signal (KeyboardInterrupt), or until a server ends by itself."""
    while True:
        for child in stack.children:
            if not child.alive:
                raise StackError(f"{child.name} has ended; end of {child.log}:\n{log_tail(Path(child.log))}")
        threading.Event().wait(1)


def down(args: argparse.Namespace) -> int:
    """End what stack.json names."""
    stack = cluster.down(args.dir)
    print(f"ended {', '.join(child.name for child in stack.children)}")
    return 0


def status(args: argparse.Namespace) -> int:
    """Ask every server; 1 if one does not answer, with the end of its log."""
    answers = cluster.Stack.load(args.dir).wait_healthy(args.timeout)
    for answer in answers:
        print(f"{answer.name:14} {'ok  ' if answer.ok else 'FAIL'} {answer.said}")
        if answer.tail:
            print("    " + answer.tail.replace("\n", "\n    "))
    return 0 if all(answer.ok for answer in answers) else 1


def wipe(args: argparse.Namespace) -> int:
    """End what runs and remove the folder."""
    cluster.wipe(args.dir)
    print(f"removed {args.dir}")
    return 0


def do_fetch(_: argparse.Namespace) -> int:
    """Fill the cache: every jar, the chosen MySQL, and the Spark that Hudi runs on."""
    installer = mysql.installer(mysql_series())
    fetch.fetch_all()
    jvm.archive()
    hudi.python()
    version = installer().version
    print(f"{len(fetch.read_lock())} jars of {len(SETS)} sets and MySQL {version} in {fetch.cache_dir()}")
    return 0


def env(args: argparse.Namespace) -> int:
    """Addresses as shell variables (passwords too: for `eval` in one's own shell)."""
    stack = cluster.Stack.load(args.dir)
    for key, value in environment(stack).items():
        print(f"export {key}={value}")
    return 0


def lock(_: argparse.Namespace) -> int:
    """Resolve every set anew and write jars.lock."""
    print(f"{len(fetch.write_lock())} jars locked in {fetch.LOCK_FILE}")
    return 0


def compose_env(_: argparse.Namespace) -> int:
    """The .env of docker-compose.yaml: random passwords, folders of the fetched jars."""
    for name in ("MYSQL_ROOT_PASSWORD", "CDC_PASSWORD", "DEBEZIUM_PASSWORD"):
        print(f"{name}={secrets.token_hex(12)}")
    print(f"DEBEZIUM_PLUGIN={fetch.fetch('debezium')}")
    print(f"SPARK_JARS={fetch.fetch('spark')}")
    return 0


def sbom(_: argparse.Namespace) -> int:
    """What the installed provider is made of, as CycloneDX."""
    from stack.sbom import document

    print(document(), end="")
    return 0


def do_hashes(_: argparse.Namespace) -> int:
    """Write constraints-hashed.txt: each pin of constraints.txt with the checksums of its files, as pip tells them."""
    from stack import hashes

    hashes.HASHED.write_text(hashes.document(hashes.PINS.read_text(), hashes.ask(hashes.PINS)))
    return 0


def requirements(_: argparse.Namespace) -> int:
    """What an installation of the wheel in build/dist may take, by checksum: for pip install --require-hashes."""
    from stack import hashes
    from stack.sbom import names

    (wheel,) = (hashes.PINS.parent / "build" / "dist").glob("*.whl")
    print(hashes.requirements(wheel, hashes.HASHED.read_text(), names()), end="")
    return 0


def environment(stack: cluster.Stack) -> dict[str, str]:
    """Addresses of a running stack by variable name."""
    variables: dict[str, str] = {}
    for name, server in stack.databases.items():
        prefix = "STACK_" + name.upper().replace("-", "_")
        variables |= {f"{prefix}_HOST": server.host, f"{prefix}_PORT": str(server.port)}
        variables |= {f"{prefix}_USER": server.user, f"{prefix}_PASSWORD": server.password}
    if stack.kafka:
        variables["STACK_KAFKA"] = stack.kafka.bootstrap
    if stack.connect:
        variables["STACK_CONNECT"] = stack.connect.url
    return variables


def describe(stack: cluster.Stack) -> str:
    """Where everything is, for a person."""
    lines = [f"{name:14} {server.host}:{server.port} ({server.version})" for name, server in stack.databases.items()]
    lines += [f"{'kafka':14} {stack.kafka.bootstrap}"] if stack.kafka else []
    lines += [f"{'connect':14} {stack.connect.url}"] if stack.connect else []
    lines.append(f"{'logs':14} {stack.logs}")
    lines.append(f"ready in {stack.seconds['ready']} s, of which fetching {stack.seconds['fetch']} s")
    return "\n".join(lines)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "up": up,
    "down": down,
    "status": status,
    "wipe": wipe,
    "fetch": do_fetch,
    "env": env,
    "lock": lock,
    "compose-env": compose_env,
    "sbom": sbom,
    "hashes": do_hashes,
    "requirements": requirements,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="python -m stack", description=__doc__)
    commands = root.add_subparsers(dest="command", required=True)
    for name, function in _COMMANDS.items():
        command = commands.add_parser(name, help=(function.__doc__ or "").strip())
        command.add_argument("--dir", type=Path, default=DEFAULT_DIR, help=f"the stack's folder ({DEFAULT_DIR})")
        if name == "up":
            command.add_argument("--keep", action="store_true", help="leave it running and return")
            command.add_argument(
                "--services",
                default="",
                help=f"comma separated, of {','.join(cluster.KNOWN)}; default {','.join(cluster.ALL)}",
            )
            command.add_argument("--max-binlog-size", type=int, default=MySqlSettings().max_binlog_size)
            command.add_argument("--nogtid", action="store_true", help="one more MySQL with gtid_mode=OFF")
        if name == "status":
            command.add_argument("--timeout", type=float, default=0.0, help="seconds to wait for all to answer")
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors are one message, never a traceback."""
    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        return _COMMANDS[args.command](args)
    except StackError as error:
        print(f"stack: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("stack: interrupted; everything started was ended", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
