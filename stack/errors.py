"""What can go wrong while the stack starts."""

from __future__ import annotations

from pathlib import Path


class StackError(Exception):
    """A server could not be fetched, started or stopped. The message says what, where and what to do."""

    exit_status = 1


class UnavailableError(StackError):
    """Something the stack needs can't be had on this machine (exit status 2: nothing was tried)."""

    exit_status = 2


def log_tail(log: Path, lines: int = 30) -> str:
    """The last lines of a log, for an error message."""
    try:
        text = log.read_text(errors="replace").splitlines()
    except OSError:
        return f"(no log at {log})"
    return "\n".join(text[-lines:]) or f"({log} is empty)"
