"""What the decoders of before made of every scene, kept as data in tests/data/goldens: a line for each record.

They were written at 128d013f, by Spark's expressions and by the decoder of small batches, which had to agree; both are gone. A
value is the repr() of what Arrow holds: an instant is microseconds, a date is days. `plain` is what differed in the decoder of small
batches; a record without it was left to Spark's expressions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_cdc.events.decoder import AFTER, BEFORE, FACTS, KEY, Plan, decoder
from airflow_cdc.events.record import Side, Want
from tests.paths import ROOT

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column
    from airflow_cdc.events.frame import Frame
    from airflow_cdc.events.value import Values
    from tests.goldens.scenes import Scene

FOLDER = ROOT / "tests" / "data" / "goldens"
_TOGETHER = {"place": ("n", "pos", "row"), "log": ("log", "log_n")}
_ALONE = ("op", "origin", "transaction", "ts_ms", "snapshot", "defaulted", "other_table", "bad", "unknown")


def kept() -> Sequence[str]:
    """The names of the scenes that were kept."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def read(name: str) -> tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]:
    """The columns that a scene's settings refuse, and a line for each record."""
    lines = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    return (lines[0]["refused"], lines[1:]) if lines and "refused" in lines[0] else ({}, lines)


def now(scene: Scene, frame: Frame, values: Values) -> Sequence[Mapping[str, Any]]:
    """What the one decoder makes of a scene's records, in the same form."""
    want = Want(Side.ROW if scene.before else Side.NONE, Side.ROW)
    batch = decoder(Plan(scene.table, frame, values, want)).batch(scene.records)
    facts = {name: batch.column(name).to_pylist() for name in FACTS}
    images = {
        name: _images(batch.column(name), scene.table.key_columns if name == KEY else scene.table.mirrored)
        for name in (KEY, BEFORE, AFTER)
        if name in batch.schema.names
    }
    lines = []
    for at in range(batch.num_rows):
        line = {name: facts[name][at] for name in _ALONE}
        line |= {name: [facts[one][at] for one in ones] for name, ones in _TOGETHER.items()}
        lines.append(compact(line | {name: ones[at] for name, ones in images.items()}))
    return lines


def _images(structs: pa.StructArray, columns: Sequence[Column]) -> list[dict[str, str] | None]:
    values = [plain(one).to_pylist() for one in structs.flatten()]
    there = structs.is_valid().to_pylist()
    return [image(columns, row) if one else None for one, row in zip(there, zip(*values, strict=True), strict=True)]


def image(columns: Sequence[Column], values: Sequence[Any]) -> dict[str, str]:
    """A row, or a key: the columns that are not NULL."""
    return {column.name: repr(value) for column, value in zip(columns, values, strict=True) if value is not None}


def compact(line: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields that are NULL or false, nor a place and a log of nothing else."""
    empty = ([None] * 3, [None] * 2)
    return {
        name: value for name, value in line.items() if value is not None and value is not False and value not in empty
    }


def plain(values: pa.Array) -> pa.Array:
    """Moments and days as numbers, which Python's own cannot all be."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values
