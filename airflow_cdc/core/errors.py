"""One tree of errors. Each says what happened, where, and what to do next.

They travel between processes, so they are picklable. People see their text unchanged, so it must never hold a secret.
What nobody foresaw, such as a KeyError over a server's odd answer, becomes one of them, and so does a missing package.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final

from airflow_cdc.core.text import shown

# The errors raised by reading a malformed document: int() raises OverflowError for JSON's 1e999, and JSON of a thousand
# brackets is a RecursionError.
MALFORMED = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)
# what to do about a stored offset, or position, that can't be read
RESTORE_OFFSET: Final = "Put a backup back by `airflow cdc offset restore`, or recover the pipeline."
# A sentence that ends with another one, such as a server's, has two full stops; an ellipsis has three.
_TWO_STOPS: Final = re.compile(r"(?<!\.)\.\.(?=\s|$)")
_PACKAGE: Final = Path(__file__).parents[1]
_DISTRIBUTION: Final = "airflow-provider-cdc"
_UNFORESEEN: Final = "An answer or a file has a form that this version doesn't know. Report it with this line."


class CdcError(Exception):
    """Root of every error this package raises.

    `what` happened, `where` (a system, a file and key, a table), and `todo`: the next action.
    `exit_status` is the exit status of a command: 1 problem, 2 usage or configuration, 3 unknown. `unread`: the error only
    means that a system could not be asked, and says nothing about its state. `lasting`: to ask again would change nothing.
    """

    exit_status: ClassVar[int] = 1
    unread: ClassVar[bool] = False
    lasting: ClassVar[bool] = False

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        self.what = _TWO_STOPS.sub(".", what.strip())
        self.where = where.strip()
        self.todo = _TWO_STOPS.sub(".", todo.strip())
        super().__init__(self.what)

    def __str__(self) -> str:
        head = f"{self.what} ({self.where})" if self.where else self.what
        if not self.todo:
            return head
        return f"{head}{'' if head.endswith(('.', '!', '?')) else '.'} {self.todo}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _bare, (type(self), self.what), dict(self.__dict__)

    def to_json(self) -> dict[str, object]:
        """The error as plain JSON: its class name and every structured attribute."""
        return {"error": type(self).__name__, **self.__dict__}


def _bare(cls: type[CdcError], what: str) -> CdcError:
    # Subclasses add keyword-only arguments, so pickle restores an error's state without calling __init__.
    return cls.__new__(cls, what)


class ConfigError(CdcError):
    """A configuration file, connection or setting is wrong."""

    exit_status = 2


class UsageError(CdcError):
    """The request names something that does not exist or is not allowed."""

    exit_status = 2


class NotAllowedError(UsageError):
    """The user lacks permission."""


class UnknownStateError(CdcError):
    """A system could not be observed, so nothing may be concluded about it."""

    exit_status = 3


class PositionError(CdcError):
    """A GTID set, a binlog position, a watermark or an offset cannot be read."""


class SourceError(CdcError):
    """The source database refused or failed."""


class MissingPrivilegeError(SourceError):
    """The user lacks a privilege. `privilege` names it ("" when the server does not say which)."""

    unread = True

    def __init__(self, what: str, *, where: str = "", todo: str = "", privilege: str = "") -> None:
        super().__init__(what, where=where, todo=todo)
        self.privilege = privilege


class ConnectorError(CdcError):
    """The connector or its REST interface refused or failed. `status` is the HTTP status or None."""

    unread = True

    def __init__(self, what: str, *, where: str = "", todo: str = "", status: int | None = None) -> None:
        super().__init__(what, where=where, todo=todo)
        self.status = status


class TransportError(CdcError):
    """The topics between connector and sink refused or failed."""

    unread = True


class SinkError(CdcError):
    """The lake or its catalog refused or failed."""


class LeaseHeldError(CdcError):
    """Another run holds the pipeline's lease. `owner` and `expires_at` (ISO time) say which."""

    def __init__(self, what: str, *, where: str = "", todo: str = "", owner: str = "", expires_at: str = "") -> None:
        super().__init__(what, where=where, todo=todo)
        self.owner = owner
        self.expires_at = expires_at


class RecoveryOpenError(CdcError):
    """A recovery of another run is open. `run_id` and `epoch` say which."""

    def __init__(self, what: str, *, where: str = "", todo: str = "", run_id: str = "", epoch: int = 0) -> None:
        super().__init__(what, where=where, todo=todo)
        self.run_id = run_id
        self.epoch = epoch


class StaleHeadError(CdcError):
    """main has moved since the writer read it.

    `commits` are the snapshots that moved it ("id operation"); `only_replace` is True when all of
    them are compactions, which change no row.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        todo: str = "",
        commits: tuple[str, ...] = (),
        only_replace: bool = False,
    ) -> None:
        super().__init__(what, where=where, todo=todo)
        self.commits = tuple(commits)
        self.only_replace = only_replace


class OffsetRejectedError(CdcError):
    """An offset did not pass validation, or the value read back differs from the one written."""

    def __init__(self, what: str, *, where: str = "", todo: str = "", reasons: tuple[str, ...] = ()) -> None:
        super().__init__(what, where=where, todo=todo)
        self.reasons = tuple(reasons)


class SchemaError(CdcError):
    """A table definition, a column or a decoding mode cannot be handled exactly."""


class RereadNeededError(SchemaError):
    """Rows changed, or may have changed, without an event: the table has to be read again."""


class UnreadableEventsError(SchemaError):
    """Most records of a batch cannot be read: the way in which they are written is at fault, not single records."""


class UnreportedChangeError(SchemaError):
    """The reported DDL does not lead to the source's definition: the connector may not have read that far."""


class VerificationError(CdcError):
    """Source and sink differ, or the comparison could not be settled. `verdict` says which."""

    def __init__(self, what: str, *, where: str = "", todo: str = "", verdict: str = "MISMATCH") -> None:
        super().__init__(what, where=where, todo=todo)
        self.verdict = verdict


class NotAgreedError(CdcError):
    """The next step would remove more rows than the policy or a person allowed. `tables` are the tables concerned."""

    def __init__(self, what: str, *, where: str = "", todo: str = "", tables: tuple[str, ...] = ()) -> None:
        super().__init__(what, where=where, todo=todo)
        self.tables = tuple(tables)


class DeadlineError(CdcError):
    """Something awaited did not happen in time. `timeout` is in seconds, `last` the last state seen."""

    unread = True

    def __init__(self, what: str, *, where: str = "", todo: str = "", timeout: float = 0.0, last: str = "") -> None:
        super().__init__(what, where=where, todo=todo)
        self.timeout = timeout
        self.last = last


@contextmanager
def needs(extra: str, *, where: str = "") -> Iterator[None]:
    """A context for imports of packages that the extra `extra` installs ("": the plain install does).

    Raises ConfigError for a package that is not installed. A missing module of this package is a bug of ours and raises
    ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", _PACKAGE.name):
            raise
        requirement = f"{_DISTRIBUTION}[{extra}]" if extra else _DISTRIBUTION
        raise ConfigError(
            f"the package {package!r} is not installed", where=where, todo=f"Run: pip install '{requirement}'"
        ) from None


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
    return UnknownStateError(f"{doing} ended with an unexpected {kind_and_text(error)}", where=place, todo=_UNFORESEEN)


def kind_and_text(error: Exception) -> str:
    """An error of Python's or a library's in a few words, without secrets: `KeyError: 'id'`."""
    return f"{type(error).__name__}: {shown(str(error), 200)}".rstrip(": ")
