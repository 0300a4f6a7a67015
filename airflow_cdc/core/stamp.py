"""Metadata of a sink commit, as properties of its snapshot summary.

The stamp (`cdc.epoch`, `cdc.watermark`, `cdc.offsets`) says where the next apply starts; the chunk
ledger (`cdc.ledger`) says what a snapshot read has finished. Both are in the commit that they describe, so
that the data and its description are committed together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from airflow_cdc.core.errors import MALFORMED, UnknownStateError
from airflow_cdc.core.topics import Fence, fence_from_json, fence_to_json, whole

# what every commit of ours has in its summary begins with
OURS = "cdc."
EPOCH = "cdc.epoch"
WATERMARK = "cdc.watermark"
OFFSETS = "cdc.offsets"
LEDGER = "cdc.ledger"
# the version that the stage of a commit began from
BASE = "cdc.base"
# the epoch of rows whose read is not finished, so that their commit has no stamp yet
READ_EPOCH = "cdc.read_epoch"


@dataclass(frozen=True, slots=True)
class Stamp:
    """How far a sink table is applied.

    Attributes:
        epoch: number of recoveries before this commit; offsets of different epochs do not compare.
        watermark: the source position the table was last read from, as plain JSON, or None.
        offsets: how far each topic was applied.
        snapshot_id: the snapshot that carries the stamp; None while it is not committed.
        sequence: that snapshot's place in the order of the table's commits, if known.
    """

    epoch: int
    watermark: Mapping[str, object] | None = None
    offsets: Fence = field(default_factory=dict)
    snapshot_id: int | None = None
    sequence: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epoch", whole(self.epoch, EPOCH))
        object.__setattr__(self, "watermark", None if self.watermark is None else dict(self.watermark))
        object.__setattr__(self, "offsets", dict(sorted(self.offsets.items())))

    def to_summary(self) -> dict[str, str]:
        """The stamp as snapshot-summary properties (all text)."""
        return {EPOCH: str(self.epoch), WATERMARK: _dump(self.watermark), OFFSETS: _dump(fence_to_json(self.offsets))}

    @classmethod
    def from_summary(
        cls, summary: Mapping[str, str], snapshot_id: int | None = None, sequence: int | None = None
    ) -> Stamp | None:
        """The stamp of a snapshot summary, or None if it has none.

        Raises UnknownStateError for a stamp that cannot be read: it must not pass for "no stamp".
        """
        if EPOCH not in summary:
            return None
        try:
            watermark, offsets = json.loads(summary.get(WATERMARK, "null")), json.loads(summary.get(OFFSETS, "{}"))
            return cls(cast(int, summary[EPOCH]), watermark, fence_from_json(offsets), snapshot_id, sequence)
        except MALFORMED as error:
            raise _unreadable("stamp", snapshot_id, error) from None

    def to_json(self) -> dict[str, object]:
        """Plain JSON, for the control table and reports."""
        return {
            "epoch": self.epoch,
            "watermark": self.watermark,
            "offsets": fence_to_json(self.offsets),
            "snapshot_id": self.snapshot_id,
            "sequence": self.sequence,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Stamp:
        """The inverse of `to_json`. Raises UnknownStateError if the document is not a stamp."""
        try:
            offsets = fence_from_json(data.get("offsets") or {})
            return cls(data["epoch"], data.get("watermark"), offsets, data.get("snapshot_id"), data.get("sequence"))
        except MALFORMED as error:
            raise _unreadable("stamp", None, error) from None

    def at(self, snapshot_id: int) -> Stamp:
        """A copy of the stamp for the commit `snapshot_id`."""
        return replace(self, snapshot_id=snapshot_id)

    def next_offset(self, topic: str, partition: int) -> int | None:
        """The next offset to read, or None if the topic or the partition was not stamped."""
        known = self.offsets.get(topic)
        return None if known is None else known.next.get(partition)


@dataclass(frozen=True, slots=True)
class ChunkLedger:
    """The chunks of one table that had been read when a commit of its stage was made.

    Attributes:
        w: hash of the watermark under which the chunks were read; chunks of another W do not count.
        server_uuid: the server that was read.
        fingerprint: the fingerprint of the table's definition at W.
        done_to: last key read (inclusive, in key order), or None before the first chunk or if keyless.
        rows: rows read so far.
        complete: the whole table has been read.
    """

    w: str
    server_uuid: str
    fingerprint: str
    done_to: tuple[object, ...] | None = None
    rows: int = 0
    complete: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "done_to", None if self.done_to is None else tuple(self.done_to))
        object.__setattr__(self, "rows", whole(self.rows, "rows"))

    def same_read(self, other: ChunkLedger) -> bool:
        """Whether both belong to one read: the same W, server and table definition."""
        return (self.w, self.server_uuid, self.fingerprint) == (other.w, other.server_uuid, other.fingerprint)

    def to_summary(self) -> dict[str, str]:
        """The ledger as one snapshot-summary property."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {LEDGER: _dump({**fields, "done_to": self.done_to and list(self.done_to)})}

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> ChunkLedger | None:
        """The ledger of a snapshot summary, or None. Raises UnknownStateError if it cannot be read."""
        if LEDGER not in summary:
            return None
        try:
            return cls(**json.loads(summary[LEDGER]))
        except MALFORMED as error:
            raise _unreadable("chunk ledger", None, error) from None


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _unreadable(what: str, snapshot_id: int | None, error: Exception) -> UnknownStateError:
    return UnknownStateError(
        f"the {what} cannot be read: {error}",
        where="" if snapshot_id is None else f"snapshot {snapshot_id}",
        todo="Recover the table (diff_repair) instead of guessing its position.",
    )
