"""A process that forks another for each change of a file that a piece of work makes, which is killed at that change.

Started with LD_PRELOAD=kill_at.so: `python -m tests.breaks.killed_writes FOLDER WORK=EVERY …`. Prints one JSON object a line.
It forks, so that one start of Python serves hundreds of kills.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from airflow_cdc.cli.run import write_file
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.report import Verdict
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import RunSummary
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sinks.iceberg.row_delta import RowDelta

PLACE: Final = ("shop", "orders")
MOST: Final = 2_000


@dataclass(frozen=True, slots=True)
class Work:
    """`begin` is done before, `act` is what is killed, `state` is what one reads then."""

    begin: Callable[[Path], Any]
    act: Callable[[Path], Any]
    state: Callable[[Path], Any]


def lake(folder: Path) -> Lake:
    return Lake("lake", {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/data"})


def _rows(first: int, last: int, text: str) -> pa.Table:
    ids = range(first, last + 1)
    return pa.table({"id": pa.array(ids, pa.int32()), "v": [f"{text}{n}" for n in ids]})


def _filled(folder: Path) -> None:
    (folder / "data").mkdir()
    made = lake(folder)
    made.ensure_table(*PLACE, [("id", "int"), ("v", "string")])
    _delta(folder, 1, 20, "old")


def _delta(folder: Path, first: int, last: int, text: str) -> bool:
    """One commit of few changes: the rows of these ids get this text."""
    made, rows = lake(folder), _rows(first, last, text)
    summary = {"cdc.offsets": text}
    read = made.table(*PLACE)
    return RowDelta(rows.select(["id"]), rows, summary).write(made.catalog, PLACE, read) is not None


def _mirrored(folder: Path) -> Any:
    return sorted(tuple(row.values()) for row in lake(folder).read_arrow(*PLACE).to_pylist())


def _publish(folder: Path) -> Any:
    """Main moves to a stage that is filled meanwhile; a second run finds main there, or fills another stage."""
    made = lake(folder)
    stage = made.stage(*PLACE, "recov_1_1")
    if made.stage_head(stage) == stage.base_head:
        made.table(*stage.identifier).overwrite(_rows(1, 30, "new").cast(_schema(made)))
    return made.publish(stage, made.stage_head(stage) or 0, stage.base_head)


def _schema(made: Lake) -> pa.Schema:
    return made.table(*PLACE).schema().as_arrow()


def _control(folder: Path) -> Control:
    return Control(IcebergControlStore(lake(folder)), "shop")


def _led(folder: Path) -> None:
    (folder / "data").mkdir()
    _control(folder).audit("somebody", "begin", "", "")


def _lead(folder: Path) -> None:
    _control(folder).ledger_once("run-1", "watermark", "W")


def _ledger(folder: Path) -> Any:
    control = _control(folder)
    return [control.ledger_get("run-1").get("watermark"), [line["what"] for line in control.state().get("audit", ())]]


def _summary(number: int) -> RunSummary:
    ended = f"2026-11-21T0{number}:00:00+00:00"
    return RunSummary(f"run-{number}", f"run-{number}", "recovery", "NONE", "none", Verdict.MATCH, ended, 1.0)


def _keep(folder: Path, number: int) -> None:
    ReportStore(str(folder / "reports")).keep_run("shop", _summary(number))


def _kept(folder: Path) -> Any:
    return [run.run_id for run in ReportStore(str(folder / "reports")).runs("shop")]


WORKS: Final = {
    "few_changes": Work(_filled, lambda folder: _delta(folder, 11, 30, "new"), _mirrored),
    "publish": Work(_filled, _publish, _mirrored),
    "control_document": Work(_led, _lead, _ledger),
    "report": Work(lambda folder: _keep(folder, 1), lambda folder: _keep(folder, 2), _kept),
    "pipelines_yaml": Work(
        lambda folder: write_file(folder / "pipelines.yaml", "old\n"),
        lambda folder: write_file(folder / "pipelines.yaml", "new\n" * 50_000),
        lambda folder: (folder / "pipelines.yaml").read_text(),
    ),
    # as nothing of ours writes: the strikes have to find it
    "in_place": Work(
        lambda folder: (folder / "file").write_text("old\n"),
        lambda folder: (folder / "file").write_text("new\n" * 50_000),
        lambda folder: (folder / "file").read_text(),
    ),
}


def in_a_child(what: Callable[[], Any], *, at: int = 0, under: Path | None = None) -> tuple[int, Any]:
    """Do it in a fork that is killed at change `at` of a file under the folder: its wait status, and what it returned."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if under is not None:
                kill_at.kill_at_arm(str(under).encode(), at)
            result = what()
            told = {"counted": kill_at.kill_at_count()} if under is not None else {"result": result}
            os.write(writing, json.dumps(told, default=str).encode())
            status = 0
        except CdcError as error:
            os.write(writing, json.dumps({"error": str(error)}).encode())
        except BaseException:
            os.write(writing, json.dumps({"raw": traceback.format_exc()[-2000:]}).encode())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    return os.waitpid(pid, 0)[1], json.loads(text) if text else None


def strike(folder: Path, work: Work, every: int) -> dict[str, Any]:
    """Kill the work at every `every`-th change. What is not as before or as after, or cannot be done again, is a fault."""
    own, kept = folder / "work", folder / "kept"
    own.mkdir()
    status, told = in_a_child(lambda: work.begin(own))
    assert status == 0, told
    shutil.copytree(own, kept)
    before = in_a_child(lambda: work.state(own))[1]
    status, told = in_a_child(lambda: work.act(own), at=MOST, under=own)
    assert status == 0, told
    after = in_a_child(lambda: work.state(own))[1]
    assert before != after, before
    faults: list[str] = []
    states = {"before": 0, "after": 0}
    for at in range(1, told["counted"] + 1, every):
        shutil.rmtree(own)
        shutil.copytree(kept, own)
        status, _ = in_a_child(lambda: work.act(own), at=at, under=own)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            continue  # it took fewer changes this time
        found = in_a_child(lambda: work.state(own))[1]
        if found not in (before, after):
            faults.append(f"killed at change {at}: {str(found)[:300]}")
            continue
        states["before" if found == before else "after"] += 1
        again = in_a_child(lambda: work.act(own))[1]
        ended = in_a_child(lambda: work.state(own))[1]
        if ended != after:
            faults.append(f"killed at change {at}, done again ({again}): {str(ended)[:300]}")
    return {"changes": told["counted"], "kills": sum(states.values()) + len(faults), **states, "faults": faults}


if __name__ == "__main__":
    kill_at = ctypes.CDLL(os.environ["LD_PRELOAD"])
    for number, asked in enumerate(sys.argv[2:]):
        name, _, every = asked.partition("=")
        folder = Path(sys.argv[1]) / str(number)
        folder.mkdir()
        print(json.dumps(strike(folder, WORKS[name], int(every))), flush=True)
