"""One of several processes that change one control document at once (see control_store.py)."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_cdc.control.control import Control
from airflow_cdc.control.document import Document
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.ports import ControlStore


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


def asleep(control: Control) -> None:
    """Stop this process between reading the document and writing it, once."""
    calls: list[int] = []

    def change(state: Document) -> Document:
        calls.append(1)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        return add_one(state)

    control.update(change, "asleep")


def endless(control: Control, acknowledged: Path) -> None:
    """Raise the counter again and again, and write down how often that was said to stand."""
    number = 0
    while True:
        control.update(add_one, f"write {number}")
        number += 1
        told = acknowledged.with_suffix(".new")
        told.write_text(str(number))
        told.replace(acknowledged)


def opened(spec: Mapping[str, Any]) -> ControlStore:
    """The store of a bench's `spec`."""
    if "folder" in spec:
        from airflow_cdc.sinks.iceberg.control import IcebergControlStore
        from tests.contract.lakes import lake_in

        return IcebergControlStore(lake_in(Path(spec["folder"])))
    if "search" in spec:
        from airflow_cdc.sinks.opensearch.client import SearchSink
        from airflow_cdc.sinks.opensearch.control import OpenSearchControlStore
        from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint

        return OpenSearchControlStore(SearchSink(OpenSearchEndpoint(spec["search"])))
    from airflow_cdc.controls.sql.store import SqlControlStore

    return SqlControlStore(SqlEndpoint(**spec))


def main(spec: str, what: str, times: str, name: str, folder: str) -> None:
    """`what`: document, lease, asleep or endless."""
    control = Control(opened(json.loads(spec)), "shop")
    jobs = {
        "document": lambda: count_in_document(control, int(times), name),
        "lease": lambda: count_under_lease(control, int(times), name, Path(folder) / "counter"),
        "asleep": lambda: asleep(control),
        "endless": lambda: endless(control, Path(folder) / "acknowledged"),
    }
    jobs[what]()


if __name__ == "__main__":
    main(*sys.argv[1:])
