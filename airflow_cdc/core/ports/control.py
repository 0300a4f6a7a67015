"""Where a pipeline's own state is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A pipeline's control document as a store holds it.

    Attributes:
        text: JSON, as control/document.py writes it; "" if the store has been written to but holds no document.
        version: the store's name for this state; only that store can compare it.
    """

    text: str
    version: str


class ControlStore(Protocol):
    """Keeps one document per pipeline, changed by compare-and-set. control/control.py does the rest."""

    @property
    def where(self) -> str:
        """How messages name the server or catalog."""
        ...

    def place(self, pipeline: str) -> str:
        """How messages name the place of one document."""
        ...

    def load(self, pipeline: str) -> StoredDocument | None:
        """The current document; None before the first write. Raises UnknownStateError if it cannot be read."""
        ...

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        """Replace the document of version `expected` (None: there is none yet) by `text`.

        Raises StaleHeadError if the stored version is another one, UnknownStateError if the write may or may not have
        landed, and an error of its own if the store refuses the write. The first write creates the store's tables.
        """
        ...
