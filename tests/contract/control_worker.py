"""One of several processes that change one control table at once (see test_control.py)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from airflow_cdc.control.control import Control
from airflow_cdc.control.document import Document
from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from tests.contract.lakes import lake_in


def add_one(state: Document) -> Document:
    """A change that loses updates unless it is made by compare-and-set."""
    stamps = state["stamps"]
    return {**state, "stamps": {**stamps, "count": stamps.get("count", 0) + 1}}


def count_in_document(control: Control, times: int, name: str) -> None:
    """Raise the counter, and open one recovery between two runs of every worker."""
    for number in range(times):
        control.update(add_one, f"{name} {number}")
    control.ledger_once("run", "winner", name)


def count_under_lease(control: Control, times: int, name: str, counter: Path) -> None:
    """Raise a plain file's number while holding the lease: only mutual exclusion keeps it right."""
    for number in range(times):
        poll_until(lambda: taken(control, name), timeout=120, interval=0.02, what=f"lease {number} of {name}")
        value = int(counter.read_text())
        time.sleep(0.005)
        counter.write_text(str(value + 1))
        if not control.release(name):
            raise SystemExit(f"{name} lost its lease")


def taken(control: Control, name: str) -> bool | None:
    """True if the lease was got."""
    try:
        control.acquire(name, 60)
    except LeaseHeldError:
        return None
    return True


def main(folder: str, what: str, times: str, name: str) -> None:
    """`what`: document or lease."""
    control = Control(IcebergControlStore(lake_in(Path(folder))), "shop")
    if what == "document":
        count_in_document(control, int(times), name)
    else:
        count_under_lease(control, int(times), name, Path(folder) / "counter")


if __name__ == "__main__":
    main(*sys.argv[1:])
