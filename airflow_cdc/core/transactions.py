"""Sets of a source's transactions, for servers on which a transaction keeps its name when it is replicated (INV 27).

Only the source knows how its sets are built: MySQL's are GTID sets. Here they are only joined, subtracted and printed.
"""

from __future__ import annotations

from typing import Protocol, Self, TypeVar


class Transactions(Protocol):
    """A set of transactions. Only sets of one source are combined; the source can parse the result of str()."""

    @property
    def is_empty(self) -> bool: ...

    @property
    def count(self) -> int: ...

    def issubset(self, other: Self) -> bool: ...

    def __or__(self, other: Self) -> Self: ...

    def __sub__(self, other: Self) -> Self: ...

    def __and__(self, other: Self) -> Self: ...

    def __str__(self) -> str: ...


T = TypeVar("T", bound=Transactions)


def own_transactions(replica: T, source: T) -> T:
    """What only the replica executed. Read the replica's set first, or the source's newest would be in the result."""
    return replica - source


def start_there(stored: T, own: T, before: T | None = None) -> T:
    """The set with which the connector starts at the replica, whose own transactions count as read and are not sent.

    `before` is the set that counted as own in an earlier round. Those of it that have reached the source since are no
    longer own, and they were never sent.
    """
    return (stored if before is None else stored - before) | own


def come_back(read: T, source: T, own: T | None = None) -> T:
    """The set with which the connector continues at the source, without anything that only the replica has (INV 27).

    With a transaction of the replica's own in the offset, the source would look as if it had lost something.
    Transactions that only counted as read (`own`) are removed too: if the servers replicate each other, the source may
    have them now.
    """
    return (read if own is None else read - own) & source
