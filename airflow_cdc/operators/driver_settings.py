"""Settings files that only this user can read, kept only while a Spark driver needs them."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.spark_apps.driver.task import lives

SETTINGS_NAME = "settings.json"
STALE_SECONDS = 600


@contextmanager
def private_settings(payload: Mapping[str, object], root: Path | None = None) -> Iterator[Path]:
    """Write `payload` to a file of mode 0600 in a folder of mode 0700, and remove both afterwards.

    The next task removes the files of a killed one. Raises ConfigError when the folder belongs to someone else.
    """
    base = root or Path(tempfile.gettempdir()) / f"airflow-cdc-{os.getuid()}"
    _owned(base)
    _sweep(base)
    folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=base))  # mkdtemp makes it 0700
    try:
        path = folder / SETTINGS_NAME
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as out:
            json.dump(payload, out)
        yield path
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _owned(base: Path) -> None:
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = base.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigError(
            "the folder for Spark settings could be read by others",
            where=str(base),
            todo="Remove that folder, or set TMPDIR to a private one.",
        )


def _sweep(base: Path) -> None:
    """Remove folders whose task is dead. The age guards a task in another PID namespace on the same /tmp."""
    for folder in base.iterdir():
        pid = folder.name.partition("-")[0]
        if pid.isdigit() and not lives(int(pid)) and _age(folder) > STALE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _age(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0
