"""`airflow cdc offset …`: see, keep and change a connector's offset."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_cdc.cli import reports
from airflow_cdc.cli.run import command, emit, pairs, run_of
from airflow_cdc.core.errors import UsageError
from airflow_cdc.flows import offset as flow
from airflow_cdc.flows.captured import settings as connector_settings
from airflow_cdc.flows.run import Run, now_iso
from airflow_cdc.systems.reports import safe

LEASE_SECONDS = 300


@command
def get(args: Namespace) -> int:
    """The stored offsets, as Kafka Connect keeps them."""
    run = run_of(args)
    stored = run.clients.connector.offsets(run.pipeline.connector.name)
    emit(
        args,
        stored,
        [row for entry in stored for row in pairs({"partition": entry["partition"], **(entry["offset"] or {})})],
    )
    return 0


@command
def backup(args: Namespace) -> int:
    """Write the offset that the connector reads from to a file."""
    run = run_of(args)
    taken = now_iso()
    kept = {"pipeline": run.pipeline.name, "connector": run.pipeline.connector.name, "taken_at": taken, **_mine(run)}
    path = _target(args, taken)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=2) + "\n")
    emit(args, {"wrote": str(path), **kept}, pairs({"wrote": str(path), "offset": kept["offset"]}))
    return 0


def _target(args: Namespace, taken: str) -> Path:
    if args.file:
        return Path(args.file).expanduser()
    root = reports.folder(args.pipeline)
    if "://" in root:
        raise UsageError("the reports are not kept on this machine", where=root, todo="Name a file with --file.")
    return Path(root) / "offsets" / f"{safe(taken)}.json"


@command
def restore(args: Namespace) -> int:
    """Write a backup back, as the transaction of `set`."""
    kept = _object(_text(args.file), args.file)
    if kept.get("connector") is None or not isinstance(kept.get("offset"), Mapping):
        raise UsageError(
            "this is not an offset backup", where=args.file, todo="Name a file that `offset backup` wrote."
        )
    run = run_of(args)
    if kept["connector"] != run.pipeline.connector.name:
        raise UsageError(
            f"the backup is of connector {kept['connector']!r}", where=args.file, todo="Name one of this pipeline."
        )
    return _write(args, run, kept["offset"])


@command
def set_offset(args: Namespace) -> int:
    """Stop the connector, back up → validate → write → read back → compare, and leave it stopped."""
    return _write(args, run_of(args), _object(args.value, "argument value"))


def _write(args: Namespace, run: Run, value: Mapping[str, Any]) -> int:
    """The connector stays stopped: what it skips or repeats from here is for a person to judge."""
    before = _mine(run)
    _confirmed(args, run, before["offset"], value)
    control = run.clients.control
    if control.state()["recovery"]:
        raise UsageError(
            "a recovery is open, and its offset is its own", where=run.where, todo="Finish the recovery first."
        )
    owner = f"offset {now_iso()}"
    control.acquire(owner, LEASE_SECONDS)
    try:
        run.clients.connector.stop(run.pipeline.connector.name)
        flow.write(run, before["partition"], before["offset"], value)
    finally:
        control.release(owner)
    emit(
        args,
        {"before": before["offset"], "after": dict(value)},
        pairs({"before": before["offset"], "after": dict(value)}),
    )
    name = run.pipeline.connector.name
    print(
        f"connector {name} is STOPPED; `airflow cdc recover {args.pipeline} --strategy restart` starts it",
        file=sys.stderr,
    )
    return 0


def _mine(run: Run) -> dict[str, Any]:
    """Partition and value of the offset of this pipeline's connector."""
    prefix = connector_settings(run).prefix
    stored = run.clients.connector.offsets(run.pipeline.connector.name)
    mine = [entry for entry in stored if entry["partition"].get("server") == prefix]
    found = mine[0] if mine else {"partition": {"server": prefix}, "offset": None}
    return {"partition": found["partition"], "offset": found["offset"]}


def _confirmed(args: Namespace, run: Run, before: Any, after: Any) -> None:
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this changes what the connector reads", where=run.where, todo="Add --yes if you are sure.")
    print(
        f"connector {run.pipeline.connector.name} will be stopped\nnow:   {json.dumps(before)}\nafter: {json.dumps(after)}"
    )
    if input("Write this offset? (yes/no) ").strip().lower() != "yes":
        raise UsageError("nothing was changed")


def _text(file: str) -> str:
    try:
        return Path(file).expanduser().read_text()
    except OSError as error:
        raise UsageError(f"the file can't be read: {error.strerror}", where=file) from None


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(
            "the offset is not a JSON object", where=where, todo='Write one like {"file": "binlog.000042", "pos": 4}.'
        )
    return value
