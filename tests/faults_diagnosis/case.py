"""A fault: how it is made, and the code that must come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.faults_diagnosis.subject import Subject
from tests.faults_diagnosis.world import World

if TYPE_CHECKING:
    from tests.faults_diagnosis.world import Helper


@dataclass(frozen=True, slots=True)
class Answer:
    """What one of the other commands answered after the diagnosis, and whether that is right."""

    what: str
    right: bool
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """`make` makes the fault on a healthy pipeline; `undo` leaves the servers fit for the next one.

    `expected` may depend on the server; `on_mariadb` is what MariaDB gives instead. `set_up` False: the pipeline is not made healthy first, `make` does all.
    `config` and `keyless` go to the subject, which `pipeline` makes. `beside` names further servers. `not_on_mariadb`
    says why the fault does not exist there; "" if it does. `asked` False: the connector is not started again to hear what
    it says, as it would run on over the fault. `put_right`: what a person does when the recovery stops and asks for it; `put_right_on_mariadb`: where only MariaDB's asks.
    `others`: what further commands answer after the diagnosis, asked in the process that diagnoses.
    """

    name: str
    fault: str
    expected: str | Callable[[Subject], str]
    server: str
    make: Callable[[Subject], None]
    undo: Callable[[Subject], None] | None = None
    set_up: bool = True
    keyless: bool = False
    config: dict[str, str] = field(default_factory=dict)
    not_on_mariadb: str = ""
    on_mariadb: str = ""
    beside: tuple[str, ...] = ()
    asked: bool = True
    put_right: Callable[[Subject], None] | None = None
    put_right_on_mariadb: Callable[[Subject], None] | None = None
    pipeline: Callable[[World, str, str, bool, dict[str, str]], Subject] = Subject
    others: Callable[[Subject, Helper], Iterable[Answer]] | None = None

    def asked_for(self, subject: Subject) -> Callable[[Subject], None] | None:
        """What a person does when the recovery of this subject stops and asks for it; None where it does not stop."""
        return self.put_right or (self.put_right_on_mariadb if subject.version.mariadb else None)

    def code(self, subject: Subject) -> str:
        if self.on_mariadb and subject.version.mariadb:
            return self.on_mariadb
        return self.expected if isinstance(self.expected, str) else self.expected(subject)
