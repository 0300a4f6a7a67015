"""Canal's protobuf messages → the texts of flat JSON that the decoder reads, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from airflow_cdc.connectors.canal.packets import check_installed, flat_texts, is_packet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_UTF8: Final = "the value is not valid UTF-8"
_PER_BATCH: Final = 1_000
_SCHEMA: Final = "topic string, partition int, offset bigint, no_value boolean, text string, garbled string, first int"
_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("no_value", pa.bool_()),
        ("text", pa.string()), ("garbled", pa.string()), ("first", pa.int32()),
    ]
)  # fmt: skip


def unpacked(raw: DataFrame) -> DataFrame:
    """A row per entry of each record: its text, or why there is none (`garbled`), and how many changes stand before it.

    A record of flat JSON among them stays as it is: those from before the server's settings were changed. The tasks'
    Python needs this package with its extra `canal`. Raises ConfigError if the driver's has it not.
    """
    check_installed()
    return raw.select("topic", "partition", "offset", "value").mapInArrow(_Unpacker(), _SCHEMA)


@dataclass(frozen=True, slots=True)
class _Unpacker:
    """The function of a Spark task."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for record in batch.to_pylist() for row in _rows(**record))
        # a record of many entries becomes many times as long
        while some := list(islice(rows, _PER_BATCH)):
            yield pa.RecordBatch.from_pylist(some, schema=_ARROW)


def _rows(topic: str, partition: int, offset: int, value: bytes | None) -> Iterator[dict[str, Any]]:
    for text in _texts(value):
        yield {"topic": topic, "partition": partition, "offset": offset, **text}


def _texts(value: bytes | None) -> Iterator[dict[str, Any]]:
    if value is None or not is_packet(value):
        yield _plain(value)
        return
    try:
        for entry in flat_texts(value):
            yield {"no_value": False, "text": entry.text, "garbled": None, "first": entry.first}
    except ValueError as error:
        yield _garbled(f"the value is no message of Canal's: {error}")


def _plain(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"no_value": True, "text": None, "garbled": None, "first": 0}
    try:
        return {"no_value": False, "text": value.decode(), "garbled": None, "first": 0}
    except UnicodeDecodeError:
        return _garbled(NO_UTF8)


def _garbled(why: str) -> dict[str, Any]:
    return {"no_value": False, "text": None, "garbled": why, "first": 0}
