"""The offsets in the metadata of a checkpoint or savepoint: no metric and no REST answer of Flink holds them.

The metadata is binary, but the state of a MySQL source stands in it as written by Flink CDC: after the word binlog-split,
a JSON object with file, position and GTIDs. Before all state of an operator stands its id, a hash of the id of its node in the
compiled plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import mmh3

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.offset import RawOffset

_METADATA: Final = "_metadata"
# a text with its length before it, then at most two numbers, then the JSON object with its length before it
_SPLIT: Final = re.compile(rb"\x00\x0cbinlog-split[\x00-\xff]{4,12}?(?=\{)")
_TABLE: Final = re.compile(rb'[\x00-\xff]("[^"\x00-\x1f]+"\."[^"\x00-\x1f]+")(?=\x00)')
_CHECKPOINT: Final = re.compile(r"chk-([0-9]{1,20})")


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The offset of one source of a job, and the tables that it reads, as schema.table. `at`: its place in the metadata."""

    raw: RawOffset
    tables: tuple[str, ...] = ()
    at: int = 0


def read_checkpoint(path: str, sources: Sequence[int] = (), of: int | None = None) -> tuple[SourceOffset, ...]:
    """The offsets in a checkpoint or savepoint; () while the sources copy their tables.

    `of`: only that of the source whose node has this id among those of the plan's `sources`.
    Flink removes a checkpoint when the next one is complete, and its REST interface tells of that a few seconds late: then
    the newest beside it is read. Raises ConnectorError.
    """
    folder = _local(path)
    for _ in range(3):
        try:
            metadata = (_newest(folder) / _METADATA).read_bytes()
            offsets = offsets_in(metadata, path)
            return offsets if of is None else of_source(metadata, offsets, sources, of)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unreadable(path, error.strerror or type(error).__name__) from None
    raise _unreadable(path, "it is not there")


def existing(path: str) -> str:
    """The path itself or, of a checkpoint that Flink has removed since, that of the newest beside it."""
    if not path or urlsplit(path).scheme not in ("", "file"):
        return path
    folder = _local(path)
    newest = _newest(folder)
    return path if newest == folder else newest.as_uri()


def operator_id(name: str) -> bytes:
    """The id under which Flink stores an operator's state: MurmurHash3 (128 bits, x64, seed 0) of the operator's own name."""
    return mmh3.mmh3_x64_128_digest(name.encode())


def offsets_in(metadata: bytes, where: str) -> tuple[SourceOffset, ...]:
    """The offsets in the content of a `_metadata` file. Raises ConnectorError."""
    return tuple(_offsets(metadata, where))


def of_source(
    metadata: bytes, offsets: Sequence[SourceOffset], sources: Sequence[int], of: int
) -> tuple[SourceOffset, ...]:
    """The offset of the source whose node is `of`; () if the metadata hold none of it.

    The state of a source that was replaced since may follow: no id of the plan is its. So only the first counts.
    """
    starts = {node: metadata.find(operator_id(f"{node}_source")) for node in sources}
    begin = starts.get(of, -1)
    if begin < 0:
        return ()
    end = min((at for at in starts.values() if at > begin), default=len(metadata))
    return tuple(one for one in offsets if begin < one.at < end)[:1]


def _offsets(metadata: bytes, where: str) -> Iterator[SourceOffset]:
    matches = list(_SPLIT.finditer(metadata))
    ends = (*(match.start() for match in matches[1:]), len(metadata))
    for match, end in zip(matches, ends, strict=False):  # without a match there is an end all the same
        try:
            raw, _ = json.JSONDecoder().raw_decode(metadata[match.end() : end].decode(errors="replace"))
        except (ValueError, RecursionError):
            raise _unreadable(where, "the offset in it is no JSON") from None
        names = (name.decode(errors="replace").replace('"', "") for name in _TABLE.findall(metadata[match.end() : end]))
        yield SourceOffset(raw, tuple(dict.fromkeys(names)), match.start())


def _newest(folder: Path) -> Path:
    """The folder itself or, of a checkpoint that is gone, the newest beside it."""
    if (folder / _METADATA).exists() or not _CHECKPOINT.fullmatch(folder.name):
        return folder
    beside = [one for one in folder.parent.glob("chk-*") if (one / _METADATA).exists()]
    return max(beside, key=lambda one: int((_CHECKPOINT.fullmatch(one.name) or ["", "0"])[1]), default=folder)


def _local(path: str) -> Path:
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise _unreadable(path, f"{parts.scheme}: is not read from here, only files that the Airflow worker sees")
    return Path(unquote(parts.path))


def _unreadable(path: str, why: str) -> ConnectorError:
    return ConnectorError(
        f"the position that the job stored cannot be read: {why}",
        where=path,
        todo="Let the Airflow worker read the cluster's folder of checkpoints under the same path.",
    )
