"""Every make of server that the demo can be told with: `make demo SOURCE=…`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from demo.mysql import MariaDb, MySql
from demo.postgres import Postgres
from stack.errors import StackError

if TYPE_CHECKING:
    from demo.make import Make
    from stack.cluster import Stack

_ALL: Final[tuple[type[Make], ...]] = (MySql, MariaDb, Postgres)
MAKES: Final[Mapping[str, type[Make]]] = {make.kind: make for make in _ALL}


def shop_on(stack: Stack) -> Make:
    """The shop on that stack's database. Raises StackError if it has none."""
    for make in MAKES.values():
        if made := make.of(stack):
            return made
    raise StackError(f"none of {', '.join(MAKES)} in the stack")
