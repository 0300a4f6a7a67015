"""What a few changes of a table without a key come to: how many copies of which rows it gains and loses. Pure values.

For batches that are too small for Spark's jobs (spark_apps/apply/changes.py), and to the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_cdc.decisions.apply.applied import Highest

if TYPE_CHECKING:
    from airflow_cdc.decisions.apply.applied import LastChange, PlainChange

Row = tuple[object, ...]


@dataclass(slots=True)
class NetImages:
    """The changes counted, without repeats.

    Attributes:
        gained: the text of a row → how many copies came; only rows of which more came than went.
        lost: the text of a row → how many copies went.
        images: the row of each text. Texts, because -0.0 equals 0.0 and is another value in a row.
        high: origin → the highest change.
        changes: how many there were.
    """

    images: dict[str, Row] = field(default_factory=dict)
    gained: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    high: dict[str, Highest] = field(default_factory=dict)
    changes: int = 0

    def rows(self, counts: Mapping[str, int]) -> list[Row]:
        """Each row as often as its count says."""
        return [self.images[text] for text, count in counts.items() for _ in range(count)]


def net_images(batch: Sequence[PlainChange], applied: Mapping[str, Highest]) -> NetImages | None:
    """The net of the changes that a watermark does not cover, in the order of their topic; tombstones say nothing.

    `applied`: origin → the highest change applied before. None if a change may have been applied already, or comes from a
    log that nothing is known of: their identities then have to be looked up in the topic.
    """
    fresh = list(_without_repeats(batch))
    changes = [change for _, change in fresh]
    if any(_may_be_old(change, applied) for change in changes) or _from_another_log(changes, applied):
        return None
    net, counts = NetImages(changes=len(fresh)), Counter[str]()
    for one, change in fresh:
        for row, copies in ((one.after, 1), (one.before, -1)):
            if row is not None:
                text = repr(row)
                net.images[text] = row
                counts[text] += copies
        top = Highest(*change.place, change.log, change.log_n)
        net.high[change.origin] = max(net.high.get(change.origin, top), top)
    net.gained, net.lost = +counts, -counts
    return net


def _without_repeats(batch: Iterable[PlainChange]) -> Iterable[tuple[PlainChange, LastChange]]:
    """Each change once: its first record."""
    seen = set[tuple[object, ...]]()
    for one in batch:
        if (change := one.change) is not None:
            identity = (change.origin, change.place, change.log, change.log_n, change.transaction, one.op)
            if identity not in seen:
                yield one, change
            seen.add(identity)


def _may_be_old(change: LastChange, applied: Mapping[str, Highest]) -> bool:
    """Whether it is not certainly after everything that was applied."""
    high = applied.get(change.origin)
    if high is None or change.place[0] != high.n:
        return high is not None and change.place[0] < high.n
    return (change.log, change.log_n) != (high.log, high.log_n) or change.place[1:] <= (high.pos, high.row)


def _from_another_log(changes: Iterable[LastChange], applied: Mapping[str, Highest]) -> bool:
    """Whether a log that orders changes by its files alone is not the one from which changes were applied (INV 19)."""
    known = {name for name, high in applied.items() if high.log == name}
    return bool(known) and any(one.origin == one.log and one.origin not in known for one in changes)
