"""A cell of the kill matrix: one fault at one moment inside one step, and how that moment is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.runner import Recovery


@dataclass(frozen=True, slots=True)
class Seen:
    """The moment at which a request with this text has reached `system`, and its answer has not come back yet."""

    system: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Written:
    """The moment after the control document was written with this field of its open recovery ("": with none open).

    The step's process stops itself there (SIGSTOP) until the fault has struck: such a moment lasts some milliseconds.
    """

    field: str


@dataclass(frozen=True, slots=True)
class When:
    """The moment at which this holds, looked at again and again."""

    holds: Callable[[Recovery], bool]


How = Seen | Written | When
Fault = Callable[["Recovery"], None]
# step, moment → how the moment is seen
Moments = Mapping[tuple[str, str], How]


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault at one moment; `strike` makes it."""

    step: str
    moment: str
    fault: str
    how: How = field(compare=False, repr=False)
    strike: Fault = field(compare=False, repr=False)


def cells(moments: Moments, faults: Mapping[str, Fault], step: str, moment: str, *names: str) -> list[Cell]:
    """A cell for each of the faults of these names at one moment."""
    return [Cell(step, moment, name, moments[(step, moment)], faults[name]) for name in names]
