"""One step of a recovery as a process of its own, as an Airflow task is: `python -m tests.faults.steps STEP SETTINGS`.

The process ends with 0 and its facts, or with 1 and its error, in `<SETTINGS>.<STEP>.json`. The Spark steps start a
driver as their child, as the operators do: Python first. It ends by itself within a second or two of the process that is killed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from airflow_cdc import spark_main
from airflow_cdc.control.control import Control
from airflow_cdc.control.document import Document
from airflow_cdc.core.errors import CdcError, UnknownStateError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import close, connector, decide, hold, publish, watermark
from airflow_cdc.flows import open as opening
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.operators.python_first import with_late_jvm
from airflow_cdc.spark_apps.driver.app import read_run
from airflow_cdc.spark_apps.driver.session import python_of

Settings = Mapping[str, Any]


def diagnose(run: Run) -> Facts:
    """As the operator does: a plan that is refused fails the task."""
    decision = decide.decide(run)
    if decision["plan"]["refused"]:
        raise UnknownStateError(decision["plan"]["reason"], where=run.where, todo="Clear the task diagnose.")
    return decision


def open_recovery(run: Run) -> Facts:
    """Open what the ledger's decision says."""
    return opening.open_recovery(run, Decision.from_json(run.clients.control.ledger_get(run.run_id)["decision"]))


FLOWS: dict[str, Callable[[Run], Facts]] = {
    "diagnose": diagnose,
    "open_recovery": open_recovery,
    "stop_connector": connector.stop,
    "hold_binlog": lambda run: hold.hold(run, lambda: False),
    "fence_and_watermark": watermark.fence_and_watermark,
    "reset_offset": offset.reset_offset,
    "resume_connector": connector.resume,
    "publish": publish.publish,
    "close": close.close,
    "report": close.report,
}
SPARK = ("recover", "verify", "apply_changes")


def submit(app: str, settings: Settings, path: Path) -> Facts:
    """Run an application; its pid is in `<SETTINGS>.<app>.pid` while it runs."""
    inner = path.parent / f"driver-{os.getpid()}" / "settings.json"
    inner.parent.mkdir()
    inner.write_text(json.dumps(settings))
    argv = [sys.executable, str(Path(spark_main.__file__).resolve()), app, "--settings", str(inner)]
    env = {**os.environ, **python_of(local=True), **with_late_jvm(settings["submit"])}
    with (path.parent / f"{app}.log").open("ab") as log:
        if limit := settings.get("file_bytes"):
            status = _on_a_full_disk(argv, env, limit, log)
        else:
            driver = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
            path.with_suffix(f".{app}.pid").write_text(str(driver.pid))
            status = driver.wait()
    told = spark_main.read_result(inner)
    if status == 0:
        return told
    facts = told.get("error") or {"what": f"the driver ended with {status}", "todo": f"Clear the task {app}."}
    raise CdcError(facts["what"], where=facts.get("where", ""), todo=facts.get("todo", ""))


def _on_a_full_disk(argv: list[str], env: Mapping[str, str], limit: int, log: IO[bytes]) -> int:
    """Run where no file can grow beyond `limit` bytes: the nearest to a full disk that needs no root.

    What the driver says goes through a pipe, because its log is a file too.
    """
    command, pipe = ["prlimit", f"--fsize={limit}", *argv], subprocess.PIPE
    driver = subprocess.Popen(command, env=env, stdout=pipe, stderr=subprocess.STDOUT)
    assert driver.stdout is not None
    shutil.copyfileobj(driver.stdout, log)
    return driver.wait()


def pause_after(field: str, marker: Path) -> None:
    """Stop this process when it has written the control document with `field` ("": with no recovery open).

    It is a stop in between, not another way: the write is the product's own and done.
    """
    update = Control.update

    def updated(self: Control, change: Callable[[Document], Document | None], what: str) -> Document:
        made = update(self, change, what)
        recovery = made["recovery"] or {}
        if not marker.exists() and (recovery.get(field) if field else not recovery):
            marker.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return made

    Control.update = updated  # type: ignore[method-assign]


def main(name: str, path: Path) -> int:
    """Run the step; returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    settings = json.loads(path.read_text())
    if (pause := settings.get("pause")) and pause["step"] == name:
        pause_after(pause["field"], Path(pause["marker"]))
    answer: dict[str, Any]
    try:
        facts = submit(name, settings, path) if name in SPARK else FLOWS[name](read_run(settings))
        answer = {"facts": facts}
    except CdcError as error:
        answer = {"error": error.to_json()}
    path.with_suffix(f".{name}.json").write_text(json.dumps(answer, default=str))
    return int("error" in answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
