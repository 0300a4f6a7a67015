"""How busy a source is, as far as policy.throttle asks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceLoad:
    """What a server tells of its work at one moment.

    Attributes:
        running: statements that it executes, without the one that asks; None: not asked.
        lag_s: how far it is behind the server that it replicates from; None: not asked, no replica, or not known.
        lag_unknown: why it is not known how far a replica is behind; "" otherwise.
    """

    running: int | None = None
    lag_s: float | None = None
    lag_unknown: str = ""
