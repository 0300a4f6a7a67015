"""Tables of an embedded catalog that are changed without Spark, and values at the edges of each type of the sink."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.row_delta import RowDelta

SHAPE = "struct<srid:int,wkb:binary>"
POINT = {"srid": 4326, "wkb": b"\x01\x02"}
MOMENT = dt.datetime(2021, 3, 28, 2, 30, 0, 1, tzinfo=dt.UTC)
EARLY = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
LATE = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
# a type of the sink → its values at the edges
VALUES: dict[str, list[Any]] = {
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "decimal(20,0)": [Decimal(2**64 - 1), Decimal(0)],
    "decimal(9,2)": [Decimal("-9999999.99"), Decimal("0.01")],
    "decimal(38,30)": [Decimal("-99999999." + "9" * 30), Decimal("1e-30")],
    "double": [0.1, 5e-324, -1.7976931348623157e308],
    "boolean": [True, False],
    "string": ["", "😀|'", "x" * 70_000],
    "binary": [b"", b"\x00\xff" * 40_000],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [MOMENT, EARLY, LATE],
    "timestamp_ntz": [one.replace(tzinfo=None) for one in (MOMENT, EARLY, LATE)],
    "array<string>": [["a", None], []],
    "array<decimal(10,2)>": [[Decimal("1.50")], None],
    SHAPE: [POINT, {"srid": 0, "wkb": b""}],
}


class Sink:
    """A table of the lake."""

    def __init__(self, lake: Lake, columns: dict[str, str]) -> None:
        self.lake, self.place = lake, ("shop", f"t_{uuid.uuid4().hex[:6]}")
        lake.ensure_table(*self.place, list(columns.items()))

    def write(self, keys: pa.Table, rows: pa.Table, *, copies: list[int] | None = None, **summary: str) -> bool:
        read = self.lake.table(*self.place)
        return RowDelta(keys, rows, summary, copies=copies).write(self.lake.catalog, self.place, read) is not None

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.lake.read_arrow(*self.place).sort_by("id").to_pylist()
        return rows


def ids(*values: Any, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"id": pa.array(values, kind or pa.int32())})


_KILLED = """
import os, signal, sys
import pyarrow as pa
from airflow_cdc.sinks.iceberg import row_delta, small_files
from airflow_cdc.sinks.iceberg.client import Lake

uri, warehouse, table, when, call = sys.argv[1:]
lake = Lake("lake", {"type": "sql", "uri": uri, "warehouse": warehouse})
real = row_delta.commit

def killed(*args, **named):
    if when == "after":
        real(*args, **named)
    os.kill(os.getpid(), signal.SIGKILL)

row_delta.commit = killed
ids = pa.table({"id": pa.array([1, 2], pa.int32())})
catalog, place, read = lake.catalog, ("shop", table), lake.table("shop", table)
eval(call)
"""


def kill_at_commit(folder: Path, sink: Sink, when: str, call: str) -> None:
    """Run `call`, an expression over `catalog`, `place`, `read` and `ids`, in a process that is killed `when` it commits."""
    place = (f"sqlite:///{folder / 'catalog.db'}", f"file://{folder}/warehouse", sink.place[1])
    command = [sys.executable, "-c", _KILLED, *place, when, call]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
