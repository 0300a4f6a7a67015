"""MariaDB's GTIDs (domain-server-number): places in the log, and the transactions a server has logged.

MariaDB has no sets of transactions. A *position* (gtid_binlog_pos, gtid_slave_pos, a connector's offset) names the last
transaction of each domain and stands for all transactions up to it. Within a domain the numbers rise, whichever server
wrote them. A *state* (gtid_binlog_state) names the last transaction of each domain and server, so it also shows whether
a transaction of another server arrived here. Numbers may have gaps, so the number of transactions between two positions
has only an upper bound.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_cdc.core.errors import PositionError

# no number of MariaDB's has more than 20 digits, and Python reads none of more than 4,300
_GTID = re.compile(r"([0-9]{1,25})-([0-9]{1,25})-([0-9]{1,25})")
# a uuid has five parts joined by dashes, so it never matches three numbers between commas
_LIST = re.compile(r"\s*[0-9]+-[0-9]+-[0-9]+\s*(,\s*[0-9]+-[0-9]+-[0-9]+\s*)*")
_MAX_ID = 2**32 - 1
_MAX_NUMBER = 2**64 - 1


@dataclass(frozen=True, slots=True, order=True)
class MariaDbGtid:
    """One transaction: `number` in `domain`, written by the server whose id is `server`."""

    domain: int
    server: int
    number: int

    def __post_init__(self) -> None:
        if not (0 <= self.domain <= _MAX_ID and 0 <= self.server <= _MAX_ID and 0 <= self.number <= _MAX_NUMBER):
            raise _bad(str(self), "a domain and a server have 32 bits, a number has 64")

    @classmethod
    def parse(cls, text: str) -> MariaDbGtid:
        """Parse `0-1-100`. Raises PositionError."""
        match = _GTID.fullmatch(text.strip())
        if match is None:
            raise _bad(text, "not domain-server-number")
        return cls(*(int(part) for part in match.groups()))

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.number}"


@dataclass(frozen=True, slots=True)
class MariaDbSpan:
    """Transactions `after`+1 … `last.number` of one domain."""

    after: int
    last: MariaDbGtid

    @property
    def count(self) -> int:
        """The maximum number of transactions: numbers may be skipped."""
        return self.last.number - self.after

    def __contains__(self, gtid: MariaDbGtid) -> bool:
        return gtid.domain == self.last.domain and self.after < gtid.number <= self.last.number

    def __str__(self) -> str:
        return f"{self.last.domain}:{self.after + 1}-{self.last.number}"


@dataclass(frozen=True, slots=True)
class MariaDbSpans:
    """The transactions that one position has read and another has not: at most one span per domain, sorted."""

    spans: tuple[MariaDbSpan, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when there is no transaction between the two."""
        return not self.spans

    @property
    def count(self) -> int:
        """The maximum number of transactions."""
        return sum(span.count for span in self.spans)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __contains__(self, gtid: MariaDbGtid) -> bool:
        return any(gtid in span for span in self.spans)

    def __str__(self) -> str:
        return ",".join(map(str, self.spans))


@dataclass(frozen=True, slots=True)
class MariaDbPosition:
    """All transactions up to one in each domain; a domain that is absent (or has number 0) has none.

    Sorted by domain. `a.issubset(b)`: b is at or after a in every domain. `a | b` takes the later and `a & b` the
    earlier GTID of each domain; `a - b` is what a has read and b has not. Raises PositionError for two GTIDs of one
    domain.
    """

    gtids: tuple[MariaDbGtid, ...] = ()

    def __post_init__(self) -> None:
        ordered = tuple(sorted(gtid for gtid in self.gtids if gtid.number))
        for one, other in itertools.pairwise(ordered):
            if one.domain == other.domain:
                raise _bad(f"{one},{other}", "a position has one place per domain")
        object.__setattr__(self, "gtids", ordered)

    @classmethod
    def parse(cls, text: str) -> MariaDbPosition:
        """Parse `0-1-100,1-2-50`; white space is ignored, "" is the beginning of the log. Raises PositionError."""
        return cls(tuple(_parse(text)))

    def __str__(self) -> str:
        return ",".join(map(str, self.gtids))

    def __bool__(self) -> bool:
        return bool(self.gtids)

    @property
    def is_empty(self) -> bool:
        """True if the position includes no transaction."""
        return not self.gtids

    @property
    def servers(self) -> tuple[int, ...]:
        """The ids of the servers that wrote the last transactions, sorted."""
        return tuple(sorted({gtid.server for gtid in self.gtids}))

    def number(self, domain: int) -> int:
        """The number of the domain's last included transaction; 0 if none is."""
        return next((gtid.number for gtid in self.gtids if gtid.domain == domain), 0)

    def covers(self, gtid: MariaDbGtid) -> bool:
        """True if the transaction is at or before this position; its server is ignored (as in MASTER_GTID_WAIT)."""
        return gtid.number <= self.number(gtid.domain)

    def issubset(self, other: MariaDbPosition) -> bool:
        """True when all of this is included in `other`."""
        return all(other.covers(gtid) for gtid in self.gtids)

    def __or__(self, other: MariaDbPosition) -> MariaDbPosition:
        return MariaDbPosition(tuple(max(places, key=_number) for places in self._places(other)))

    def __and__(self, other: MariaDbPosition) -> MariaDbPosition:
        both = (places for places in self._places(other) if len(places) > 1)
        return MariaDbPosition(tuple(min(places, key=_number) for places in both))

    def __sub__(self, other: MariaDbPosition) -> MariaDbSpans:
        left = (MariaDbSpan(other.number(gtid.domain), gtid) for gtid in self.gtids if not other.covers(gtid))
        return MariaDbSpans(tuple(left))

    def _places(self, other: MariaDbPosition) -> Iterator[tuple[MariaDbGtid, ...]]:
        """For each domain, its GTID in one or both of the positions."""
        for domain in sorted({gtid.domain for gtid in (*self.gtids, *other.gtids)}):
            places = tuple(gtid for gtid in (*self.gtids, *other.gtids) if gtid.domain == domain)
            if len({gtid.number for gtid in places}) < len({gtid.server for gtid in places}):
                raise _bad(",".join(map(str, places)), "two servers wrote one number: their histories have parted")
            yield places


@dataclass(frozen=True, slots=True)
class MariaDbState:
    """What a server has logged: the last transaction of each domain and server; within a domain the newest is last."""

    gtids: tuple[MariaDbGtid, ...] = ()

    def __post_init__(self) -> None:
        newest = {gtid.domain: gtid for gtid in self.gtids}
        latest = {(gtid.domain, gtid.server): gtid for gtid in self.gtids}
        ordered = sorted(latest.values(), key=lambda gtid: (gtid.domain, gtid == newest[gtid.domain], gtid.server))
        object.__setattr__(self, "gtids", tuple(ordered))

    @classmethod
    def parse(cls, text: str) -> MariaDbState:
        """Parse gtid_binlog_state. Of two entries of a server the last counts, as in MariaDB. Raises PositionError."""
        return cls(tuple(_parse(text)))

    def __str__(self) -> str:
        return ",".join(map(str, self.gtids))

    @property
    def position(self) -> MariaDbPosition:
        """The newest transaction of each domain, as gtid_binlog_pos has it."""
        return MariaDbPosition(tuple({gtid.domain: gtid for gtid in self.gtids}.values()))

    def has(self, gtid: MariaDbGtid) -> bool:
        """True if exactly this transaction, of this server, was logged here."""
        mine = (one for one in self.gtids if (one.domain, one.server) == (gtid.domain, gtid.server))
        return any(gtid.number <= one.number for one in mine)

    def lacks(self, position: MariaDbPosition) -> MariaDbPosition:
        """The transactions of `position` that this server never logged: it lost them, or another server wrote them."""
        return MariaDbPosition(tuple(gtid for gtid in position.gtids if not self.has(gtid)))


def is_mariadb(text: str) -> bool:
    """Whether a text holds MariaDB's GTIDs; "" is neither MariaDB's nor MySQL's."""
    return _LIST.fullmatch(text) is not None


def _parse(text: str) -> Iterator[MariaDbGtid]:
    return (MariaDbGtid.parse(part) for part in text.split(",")) if text.strip() else iter(())


def _number(gtid: MariaDbGtid) -> int:
    return gtid.number


def _bad(text: str, why: str) -> PositionError:
    shown = text if len(text) <= 120 else f"{text[:117]}..."
    return PositionError(f"MariaDB GTIDs cannot be read at {shown!r}: {why}", todo="Expected 0-1-100[,1-2-50].")
