"""The reader of the freshness bench: `python -m tests.bench.freshness_reader FOLDER NAMESPACE TABLE…`.

Reads main of each table whenever it has moved, and prints table, the newest change in it, and when it had been read. Ends
with its standard input.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from airflow_cdc.sinks.iceberg.client import Lake
from stack.shop.dataset import CATALOG
from tests.adversary.world import lake_properties


def main() -> None:
    """Read until the input ends."""
    folder, namespace, *tables = sys.argv[1:]
    over = threading.Event()
    threading.Thread(target=until_closed, args=(over,), daemon=True).start()
    read(Lake(CATALOG, lake_properties(Path(folder))), namespace, tables, over)


def until_closed(over: threading.Event) -> None:
    """Wait for the end of the input."""
    sys.stdin.read()
    over.set()


def read(lake: Lake, namespace: str, tables: list[str], over: threading.Event) -> None:
    """Look at each table again and again."""
    heads: dict[str, object] = {}
    while not over.wait(0.1):
        for table in tables:
            head = lake.head(namespace, table)
            if heads.get(table) != head:
                heads[table] = head
                # what is read may be newer than the head above, and is then read once more
                newest = max(lake.read_arrow(namespace, table, columns=["number"]).column("number").to_pylist())
                print(table, newest, time.time(), flush=True)


if __name__ == "__main__":
    main()
