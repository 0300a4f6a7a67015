"""What can go wrong at any database server, whatever its own numbers for it are."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.errors import SourceError

# what to do
OTHER_POSITION: Final = "Correct source.kind, or recover: the stored position is another server's."
OTHER_DEFINITION: Final = "Correct source.kind, or recover: the stored definition is another server's."
ASK_SERVER: Final = "Look up what the server says. If it passes, run the step again."
ASK_BETWEEN: Final = "Check what is between here and the server: a proxy may answer for it."


class SourceUnreachableError(SourceError):
    """No connection to the server, or it broke."""

    unread = True


class SourceAccessError(SourceError):
    """The server rejected the user or the password."""

    unread = True


class SourceTlsError(SourceError):
    """TLS could not be established as demanded."""

    unread = True


class SourceSettingError(SourceError):
    """A setting of the server makes the operation impossible."""


class SourceLockTimeoutError(SourceError):
    """A lock was not granted in time."""


class SourceOutOfTimeError(SourceError):
    """A statement was stopped before it finished, by its own time limit or by somebody."""

    unread = True


class WrongServerError(SourceError):
    """The connection reaches another server, or timeline, than the one the watermark was taken on (INV 9)."""
