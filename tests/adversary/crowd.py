"""Several seeds in one database, behind one connector: they share every recovery, apply and comparison.

A seed's own tables and statements are as they are alone, but for a name that another seed of the crowd has already. What
concerns the connector is the crowd's: its modes, the step of each round, and whether a session may log so little that
the connector stops. Days that no month has and YEAR columns stop it for good, and a row that never rests with text that events do not
carry keeps a recovery of all open until its table is left out: a crowd has none of these, they need a seed of their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from tests.adversary.form import Form
from tests.adversary.generator import Generator, Op, Round
from tests.adversary.schema import Table

STOPS_SHARE = 0.15


@dataclass(slots=True)
class Crowd:
    """The generators of some seeds as one."""

    seeds: tuple[int, ...]
    without: frozenset[str] = frozenset()
    members: tuple[Generator, ...] = field(init=False)
    owners: Mapping[str, int] = field(init=False)
    tables: dict[str, Table] = field(init=False)
    modes: dict[str, str] = field(init=False)
    form: Form = field(init=False)
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"crowd {self.seeds}")
        stops = frozenset() if self.dice.random() < STOPS_SHARE else frozenset({"stops"})
        self.without |= {"days", "year", "hot charsets"} | stops
        members: list[Generator] = []
        for seed in self.seeds:
            taken = frozenset(name for member in members for name in member.tables)
            members.append(Generator(seed, self.without, taken))
        self.members, self.modes, self.form = tuple(members), members[0].modes, members[0].form
        self.owners = {name: number for number, member in enumerate(members) for name in member.tables}
        self.tables = {name: table for member in members for name, table in member.tables.items()}

    def seed_of(self, table: str) -> int:
        """Whose table it is; the first seed's if it is nobody's."""
        return self.seeds[self.owners.get(table, 0)]

    def fill(self) -> Iterator[Op]:
        """Every member's tables and first rows."""
        for member in self.members:
            yield from member.fill()

    def rounds(self, count: int) -> Iterator[Round]:
        """Every member's statements of a round, mixed; the step is that of a member whom the crowd's dice names."""
        for rounds in zip(*(member.rounds(count) for member in self.members), strict=True):
            step = self.dice.choice(rounds).step
            yield Round(_mixed([r.before for r in rounds]), step, _mixed([r.beside for r in rounds]))

    def settle(self, op: Op) -> None:
        """The server took a definition change: its member goes on from there."""
        self.members[self.owners[op.table]].settle(op)
        if op.after is not None:
            self.tables[op.table] = op.after


def _mixed(lots: Sequence[Sequence[Op]]) -> tuple[Op, ...]:
    """One of each in turn, each lot in its own order."""
    return tuple(op for turn in zip_longest(*lots) for op in turn if op is not None)
