"""A table that the connector's job made and writes: what its files say of it, and why rows of ours would not fit in it.

The job finds the rows of a key by a bucket: a number that it calculates from the key, with which the ids of the table's file
groups begin. Rows that another program writes are found again only if they are in the same buckets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pyarrow.parquet as pq

from airflow_cdc.core.errors import UnknownStateError
from airflow_cdc.sinks.hudi.notes import CHECK_WAREHOUSE

_PROPERTIES: Final = Path(".hoodie") / "hoodie.properties"
_ESCAPE: Final = re.compile(r"\\(.)")
_FILE_GROUP: Final = re.compile(r"\.?(?P<bucket>.{8})-.*_\d{17}(\.parquet|\.log\..*)")
_RECORD_KEY: Final = "_hoodie_record_key"
_WHOLE: Final = frozenset({"int", "bigint"})
_MASK: Final = 0x7FFFFFFF
# rows of a file whose buckets are calculated: some are in the same one for another number of buckets, too
_LOOKED_AT: Final = 100


@dataclass(frozen=True, slots=True)
class SharedTable:
    """A table by its own properties.

    Attributes:
        kind: COPY_ON_WRITE or MERGE_ON_READ.
        ordering: the columns by which the newer of two rows is told.
        listed: whether the table keeps a list of its files (Hudi's metadata table), which every commit has to go on with.
    """

    folder: Path
    name: str
    kind: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    ordering: tuple[str, ...]
    key_generator: str
    listed: bool

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The table in a folder; None if there is none. Raises UnknownStateError if its properties cannot be read."""
        try:
            known = _properties((folder / _PROPERTIES).read_text())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnknownStateError(
                f"the table's properties cannot be read: {error.strerror}",
                where=str(folder / _PROPERTIES),
                todo=CHECK_WAREHOUSE,
            ) from None
        ordering = known.get("hoodie.table.ordering.fields") or known.get("hoodie.table.precombine.field", "")
        return cls(
            folder,
            known.get("hoodie.table.name", ""),
            known.get("hoodie.table.type", ""),
            _names(known.get("hoodie.table.recordkey.fields", "")),
            _names(known.get("hoodie.table.partition.fields", "")),
            _names(ordering),
            known.get("hoodie.table.keygenerator.type", ""),
            bool(known.get("hoodie.table.metadata.partitions")),
        )

    def faults(self, key: Sequence[tuple[str, str]], buckets: int) -> Iterator[str]:
        """Why rows with this key (name, Spark SQL type) cannot be put in place of the table's, each reason as text."""
        if self.partitions:
            yield f"it has partitions, by {', '.join(self.partitions)}"
        if self.ordering:
            yield (
                f"its rows are ordered by {', '.join(self.ordering)} (ordering.fields, precombine.field), and not by when they"
                " were committed"
            )
        if self.keys != tuple(name for name, _ in key):
            yield f"its record key is {', '.join(self.keys) or 'none'}, and the source's {', '.join(n for n, _ in key)}"
        elif len(key) > 1 or key[0][1] not in _WHOLE:
            yield "its record key is not one column of whole numbers; how Flink and Spark write other keys was not compared"
        if self.key_generator != "NON_PARTITION_AVRO":
            yield f"its key generator is {self.key_generator or 'not known'}, and not that of Flink"
        if strange := self._outside(buckets):
            yield (
                f"file {strange} is in none of {buckets} buckets; only index.type = BUCKET is supported, with as many buckets"
                " as sink.buckets says"
            )

    def _outside(self, buckets: int) -> str:
        """A file whose rows are not those of its bucket; "" if there is none."""
        groups = ((path, _FILE_GROUP.fullmatch(path.name)) for path in sorted(self.folder.iterdir()))
        for path, match in groups:
            if match is None:
                continue
            number = match["bucket"]
            if not number.isdecimal() or int(number) >= buckets:
                return path.name
            if any(bucket_of(key, buckets) != int(number) for key in _some_keys(path)):
                return path.name
        return ""


def bucket_of(key: str, buckets: int) -> int:
    """The bucket of a record key of one column: Java's hash of a list that holds the key's text."""
    units = key.encode("utf-16-be")
    number = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
    return ((31 + number) & _MASK) % buckets


def _some_keys(path: Path) -> list[str]:
    """Keys of the first rows in a base file; none in a log file, and in a file that was cut."""
    if path.suffix != ".parquet":
        return []
    try:
        batch = next(pq.ParquetFile(path).iter_batches(_LOOKED_AT, columns=[_RECORD_KEY]), None)
    except (OSError, ValueError):
        return []
    return [str(key) for key in batch[0]] if batch is not None else []


def _properties(text: str) -> Mapping[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {name.strip(): _ESCAPE.sub(r"\1", value) for name, _, value in lines}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)
