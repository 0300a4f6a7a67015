"""What nothing but a comparison can see, as docs/what-can-go-wrong.md says, and what it says stops a connector for good.

After such a statement a table may differ while nothing tells of it; the product's own repair must then find and mend it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.adversary.generator import Op


@dataclass(frozen=True, slots=True)
class Limit:
    """Statements that match `pattern`, in operations of `kind` ("": of any), under the connector's `modes`."""

    why: str
    pattern: re.Pattern[str]
    kind: str = ""
    modes: tuple[tuple[str, str], ...] = ()

    def holds(self, op: Op, modes: Mapping[str, str]) -> bool:
        """Whether the operation is one of these."""
        if self.kind not in {"", op.kind} or any(modes.get(name) != value for name, value in self.modes):
            return False
        return any(self.pattern.search(statement) for statement in op.statements)


LIMITS = (
    Limit("a session that logs otherwise than the server", re.compile(r"^SET SESSION (binlog|sql_log)"), "session"),
    Limit("rows prepared by XA and rolled back", re.compile(r"^XA ROLLBACK"), "xa"),
    Limit(
        "JSON with values of MySQL's own", re.compile(r"CAST\((CAST\(.*? AS TIME\)|TIMESTAMP'|DATE'|X').*? AS JSON\)")
    ),
    Limit("a year before 100", re.compile(r"'00\d\d-"), modes=(("enable.time.adjuster", "true"),)),
)
# what the connector says before it stops, and cannot go on by itself
STOPS = (
    ("an impossible date", re.compile(r"Invalid (date|value)|invalid date", re.IGNORECASE)),
    ("YEAR columns that the server does not count", re.compile(r"eventType=TABLE_MAP|Failed to read remaining")),
    (
        "a session that logs less than whole rows, or DDL that the connector misreads",
        re.compile(r"internal schema size"),
    ),
)


def unseen(op: Op, modes: Mapping[str, str]) -> str:
    """Why a table may differ unseen after the operation; "" if it may not."""
    return next((limit.why for limit in LIMITS if limit.holds(op, modes)), "")


def stop(text: str) -> str:
    """What the docs call the reason of a connector's failure; "" if they don't."""
    return next((why for why, pattern in STOPS if pattern.search(text)), "")
