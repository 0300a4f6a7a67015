"""A fault: how it is made, and the code that must come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.faults_diagnosis.subject import Subject


@dataclass(frozen=True, slots=True)
class Case:
    """`make` makes the fault on a healthy pipeline; `undo` leaves the servers fit for the next one.

    `expected` may depend on the server. `set_up` False: the pipeline is not made healthy first, `make` does all.
    `config` and `keyless` go to the subject. `not_on_mariadb` says why the fault does not exist there; "" if it does.
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

    def code(self, subject: Subject) -> str:
        return self.expected if isinstance(self.expected, str) else self.expected(subject)
