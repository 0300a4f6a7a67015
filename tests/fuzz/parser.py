"""What a row of the table of parsers is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.fuzz.limits import measured

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parser:
    """A reader of what others write.

    Attributes:
        name: what it reads, as the printed table calls it.
        read: the reader, from its one input on.
        inputs: mutated copies of valid samples.
        turn: how many inputs a turn of `make fuzz` has: fewer where each costs a process or a client.
        errors: what it documents for an input that it cannot read; (): it has an answer for everything.
    """

    name: str
    read: Callable[[Any], object]
    inputs: st.SearchStrategy[Any] = field(repr=False)
    errors: tuple[type[Exception], ...] = ()
    turn: int = 300

    def check(self, given: Any) -> float:
        """Read one input; the processor time in seconds. Raises FaultError."""
        return measured(lambda: self.read(given), self.errors)


def in_file(read: Callable[[Path], T], name: str = "file") -> Callable[[bytes | str], T]:
    """A reader of a file as a reader of its content."""
    path = Path(tempfile.mkdtemp(prefix="cdc-fuzz-")) / name

    def written(content: bytes | str) -> T:
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return read(path)

    return written
