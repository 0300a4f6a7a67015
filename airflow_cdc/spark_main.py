"""The script that spark-submit starts: `spark_main.py APP --settings FILE`."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

APPS = ("recover", "verify", "apply_changes", "nightly", "repair", "backfill", "maintain", "publish", "reset_offset")
RESULT_NAME = "result.json"
NO_SESSION_NAME = "no_session"


def read_result(settings: Path) -> dict[str, Any]:
    """The result that the application wrote beside its settings file: its facts, or {"error": …}; {} if nothing."""
    path = settings.parent / RESULT_NAME
    return dict(json.loads(path.read_text())) if path.exists() else {}


def needed_session(settings: Path) -> bool:
    """Whether the application, as far as it says, made a session of Spark."""
    return not (settings.parent / NO_SESSION_NAME).exists()


def main(argv: list[str]) -> int:
    """Run the application; write its result or its error to a file beside the settings."""
    from airflow_cdc.core.errors import CdcError
    from airflow_cdc.spark_apps.driver.session import SessionOnDemand

    path = Path(argv[2])
    settings = json.loads(path.read_text())
    path.unlink()  # it holds credentials and is no longer needed
    status = 0
    result: dict[str, object] = {}
    try:
        result = importlib.import_module(f"airflow_cdc.spark_apps.{argv[0]}").main(settings) or {}
    except CdcError as error:
        status, result = error.exit_status, {"error": error.to_json()}
        print(f"cdc: {error}", file=sys.stderr)
    if path.parent.is_dir():  # gone if the task that waited for us was killed
        (path.parent / RESULT_NAME).write_text(json.dumps(result))
        if not SessionOnDemand.needed:
            (path.parent / NO_SESSION_NAME).touch()
    return status


def leave(status: int) -> NoReturn:
    """End the process now that its result is written and its session stopped.

    An ordinary end takes all modules apart first: 1.6 seconds of processor time after a verification, for nobody.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    # a script's own folder comes first on the path, where our module names would hide other packages' modules
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    importlib.import_module("airflow_cdc.spark_apps.driver.task").end_with_parent()
    leave(main(sys.argv[1:]))
