"""A table's timeline, read without Spark: its completed commits, what they say of themselves, and the rows after them.

A commit that is completed is a file `<instant>_<completed>.<action>` in `.hoodie/timeline`, in Avro, and appears at once. Its
instant is a time with milliseconds; as a number it is the version of the table.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

import fastavro
import pyarrow.parquet as pq

from airflow_cdc.core.errors import MALFORMED, UnknownStateError
from airflow_cdc.core.stamp import OURS, ChunkLedger, Stamp

_COMPLETED: Final = re.compile(r"(\d{17})_(\d{17})\.(commit|deltacommit|replacecommit)")
_BASE_FILE: Final = re.compile(r"(.+)_[^_]+_(\d{17})\.parquet")
_DELTA: Final = "deltacommit"
_REWRITES: Final = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed commit: its version, time in unix seconds, our summary, and the file groups that it replaced.

    `operation`: Hudi's name of what it did.
    """

    version: int
    at: float
    action: str
    summary: Mapping[str, str]
    replaced: frozenset[str]
    operation: str

    @property
    def stamp(self) -> Stamp | None:
        """The stamp in the summary."""
        return Stamp.from_summary(self.summary, self.version)

    @property
    def ledger(self) -> ChunkLedger | None:
        """Which chunks of the source the table holds; None if not recorded."""
        return ChunkLedger.from_summary(self.summary)

    def __str__(self) -> str:
        return f"instant {self.version:017d} ({self.action})"


def commits(folder: Path) -> tuple[Commit, ...]:
    """The completed commits of the active timeline that wrote rows, in the order in which they completed; () for no table.

    A compaction changes no row, so it makes no version. Raises UnknownStateError if the timeline cannot be read.
    """
    return tuple(commit for commit in _all(folder) if commit.operation not in _REWRITES)


def table_type(folder: Path) -> str:
    """The type in the table's own properties; "" for no table."""
    try:
        text = (folder / ".hoodie" / "hoodie.properties").read_text()
    except FileNotFoundError:
        return ""
    return next((line.partition("=")[2] for line in text.splitlines() if line.startswith("hoodie.table.type=")), "")


def _all(folder: Path) -> tuple[Commit, ...]:
    try:
        files = [path for path in (folder / ".hoodie" / "timeline").iterdir() if _COMPLETED.fullmatch(path.name)]
        return tuple(_read(path, path.stat().st_size) for path in sorted(files, key=_order))
    except FileNotFoundError as error:
        if not (folder / ".hoodie").exists():
            return ()
        raise _unreadable(folder, error) from None
    except (OSError, EOFError, StopIteration, fastavro.schema.SchemaParseException, *MALFORMED) as error:
        raise _unreadable(folder, error) from None


def head(folder: Path) -> int:
    """The version of the table; 0 if nothing was committed."""
    known = commits(folder)
    return known[-1].version if known else 0


def stamped(known: Sequence[Commit]) -> Commit | None:
    """The newest commit with a stamp."""
    return next((commit for commit in reversed(known) if commit.stamp is not None), None)


def rows_at(folder: Path, version: int) -> int | None:
    """How many rows a version has, by its files.

    None if it is not on the active timeline, or if rows of it are in log files, which only Spark reads.
    """
    known = _all(folder)
    if version not in {commit.version for commit in known}:
        return None
    upto = [commit for commit in known if commit.version <= version]
    if any(commit.action == _DELTA for commit in upto[_replaced_at(upto) :]):
        return None
    replaced = frozenset[str]().union(*(commit.replaced for commit in upto))
    first, done = known[0].version, {commit.version for commit in upto}
    newest: dict[str, tuple[int, Path]] = {}
    for path in folder.glob("*.parquet"):
        if (match := _BASE_FILE.fullmatch(path.name)) and match[1] not in replaced:
            written = int(match[2])
            # older than the active timeline: its commit was archived, so it was completed
            if written in done or written < first:
                newest[match[1]] = max(newest.get(match[1], (0, path)), (written, path))
    try:
        return sum(int(pq.read_metadata(path).num_rows) for _, path in newest.values())
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from None


def _replaced_at(known: Sequence[Commit]) -> int:
    """The place of the newest commit that replaced all rows."""
    return max((at for at, commit in enumerate(known) if commit.operation == "INSERT_OVERWRITE_TABLE"), default=0)


def _order(path: Path) -> tuple[str, str]:
    instant, _, rest = path.name.partition("_")
    return rest[:17], instant


@lru_cache(maxsize=4096)
def _read(path: Path, size: int) -> Commit:
    """A completed commit never changes. `size` tells a table apart that was removed and made again."""
    del size
    match = _COMPLETED.fullmatch(path.name)
    # of a file itself, Python reserves as many bytes as a damaged length says
    record = next(iter(fastavro.reader(io.BytesIO(path.read_bytes()))))
    extra = record.get("extraMetadata") or {}
    replaced = (record.get("partitionToReplaceFileIds") or {}).values()
    if match is None:
        raise ValueError(path.name)
    return Commit(
        int(match[1]),
        _seconds(match[2]),
        match[3],
        {key: value for key, value in extra.items() if key.startswith(OURS)},
        frozenset(file_id for ids in replaced for file_id in ids),
        str(record.get("operationType") or ""),
    )


def _seconds(instant: str) -> float:
    whole = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return whole.timestamp() + int(instant[14:]) / 1000


def _unreadable(folder: Path, error: Exception) -> UnknownStateError:
    return UnknownStateError(
        f"the timeline cannot be read: {type(error).__name__}: {error}",
        where=f"folder {folder}",
        todo="Check that this machine sees the folder and may read it.",
    )
