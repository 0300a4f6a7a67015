"""`airflow cdc offset …`: see, keep and change a connector's offset."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from airflow_cdc.cli import reports
from airflow_cdc.cli.reading import ANSWER_WITHIN_S, read_soon
from airflow_cdc.cli.run import command, emit, pairs, run_of, write_file
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.text import read_json
from airflow_cdc.flows.move_offset import last_before, move, stored
from airflow_cdc.flows.run import Run, now_iso
from airflow_cdc.reports.store import safe


@command
def get(args: Namespace) -> int:
    """The stored offsets, as Kafka Connect keeps them; 3 when it could not be asked."""
    run = run_of(args, answer_within=ANSWER_WITHIN_S)
    stored = read_soon(lambda: run.clients.connector.entries(run.pipeline.connector.name), where=run.where)
    emit(
        args,
        [entry.to_json() for entry in stored],
        [row for entry in stored for row in pairs({"partition": dict(entry.key), **(entry.value or {})})],
    )
    return 0


@command
def backup(args: Namespace) -> int:
    """Write the offset that the connector reads from to a file."""
    run = run_of(args)
    taken_at = now_iso()
    document = {
        "pipeline": run.pipeline.name,
        "connector": run.pipeline.connector.name,
        "taken_at": taken_at,
        **stored(run),
    }
    path = _target(args, taken_at)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(document, indent=2) + "\n")
    emit(args, {"wrote": str(path), **document}, pairs({"wrote": str(path), "offset": document["offset"]}))
    return 0


def _target(args: Namespace, taken: str) -> Path:
    if args.file:
        return Path(args.file).expanduser()
    root = reports.folder(args.pipeline)
    if "://" in root:
        raise UsageError("the reports are not stored on this machine", where=root, todo="Name a file with --file.")
    return Path(root) / "offsets" / f"{safe(taken)}.json"


@command
def restore(args: Namespace) -> int:
    """Put a backup back, or without a file what stood before the last move, as the transaction of `set`."""
    run = run_of(args)
    return _write(args, run, _kept(args.file, run) if args.file else last_before(run))


def _kept(file: str, run: Run) -> dict[str, object]:
    document = _object(_text(file), file)
    offset = document.get("offset")
    if document.get("connector") is None or not isinstance(offset, Mapping):
        raise UsageError("this is not an offset backup", where=file, todo="Name a file that `offset backup` wrote.")
    if document["connector"] != run.pipeline.connector.name:
        raise UsageError(
            f"the backup is of connector {document['connector']!r}", where=file, todo="Name one of this pipeline."
        )
    return dict(offset)


@command
def set_offset(args: Namespace) -> int:
    """Stop the connector, validate against the live source → compare → write → read back, and leave it stopped."""
    return _write(args, run_of(args), _object(args.value, "argument value"))


def _write(args: Namespace, run: Run, value: Mapping[str, object]) -> int:
    """The connector stays stopped: what it skips or repeats from here is for a person to judge."""
    from airflow_cdc.cli.permission import changer  # brings in Airflow's web server: not for commands that only read

    who, before = changer(run.pipeline), stored(run)
    _confirmed(args, run, before["offset"], value)
    done = move(run, value, who=who, shown=before["offset"])
    emit(args, done, pairs(done))
    name, again = run.pipeline.connector.name, f"airflow cdc recover {args.pipeline} --strategy restart"
    print(f"connector {name} is STOPPED; `{again}` starts it", file=sys.stderr)
    print(f"`airflow cdc offset restore {args.pipeline}` restores the previous offset", file=sys.stderr)
    return 0


def _confirmed(args: Namespace, run: Run, before: object, after: object) -> None:
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this changes where the connector reads", where=run.where, todo="Add --yes if you are sure.")
    print(
        f"connector {run.pipeline.connector.name} will be stopped\nnow:   {json.dumps(before)}\nafter: {json.dumps(after)}"
    )
    if input("Write this offset? (yes/no) ").strip().lower() != "yes":
        raise UsageError("nothing was changed", todo="Answer yes, or add --yes, to write it.")


def _text(file: str) -> str:
    try:
        return Path(file).expanduser().read_text()
    except OSError as error:
        raise UsageError(
            f"the file can't be read: {error.strerror}", where=file, todo="Check its name and who may read it."
        ) from None


def _object(text: str, where: str) -> dict[str, object]:
    try:
        value = read_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(
            "the offset is not a JSON object", where=where, todo='Write one like {"file": "binlog.000042", "pos": 4}.'
        )
    return value
