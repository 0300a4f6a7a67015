"""Sets of a source's transactions, where every server that replicates keeps their names (INV 27).

What a set is made of is its source's matter: MySQL's are GTID sets. Here they are only joined, subtracted and printed.
"""

from __future__ import annotations

from typing import Protocol, Self, TypeVar


class Transactions(Protocol):
    """A set of transactions. Only sets of one source meet; str() is the text that the source reads again."""

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
    """What only the replica executed. Read the replica's set first, or the source's newest would be in it."""
    return replica - source


def start_there(stored: T, own: T, before: T | None = None) -> T:
    """The set to begin with at the replica: its own transactions count as read, so none of them is sent.

    `before` is what counted so in an earlier round: what has reached the source since is own no more, and was not sent.
    """
    return (stored if before is None else stored - before) | own


def come_back(read: T, source: T, own: T | None = None) -> T:
    """The set to go on with at the source: nothing that only the replica has may stay in it (INV 27).

    A transaction of the replica's own in the connector's offset makes the source look as if it had lost something. What
    merely counted as read (`own`) goes too: where two servers replicate each other, the source may have it by now.
    """
    return (read if own is None else read - own) & source
