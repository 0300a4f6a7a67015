"""Errors that nobody foresaw, such as a KeyError over a server's odd answer, as one of ours."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from airflow_cdc.core.errors import CdcError, UnknownStateError
from airflow_cdc.core.text import shown

_PACKAGE: Final = Path(__file__).parent
TODO: Final = "An answer or a file has a form that this version doesn't know. Report it with this line."


def foreseen(error: Exception, doing: str) -> CdcError:
    """`error` if it is one of ours; else an UnknownStateError with its kind, its text without secrets, and its place.

    `doing` is what was being done: "reading the sink". The place is the innermost line of this package, for example
    `connectors/flink/rest.py:81`, because the text of a KeyError is only the key.
    """
    if isinstance(error, CdcError):
        return error
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents]
    place = f"{Path(ours[-1].filename).relative_to(_PACKAGE).as_posix()}:{ours[-1].lineno}" if ours else ""
    return UnknownStateError(f"{doing} ended with an unexpected {kind_and_text(error)}", where=place, todo=TODO)


def kind_and_text(error: Exception) -> str:
    """An error of Python's or a library's in a few words, without secrets: `KeyError: 'id'`."""
    return f"{type(error).__name__}: {shown(str(error), 200)}".rstrip(": ")
