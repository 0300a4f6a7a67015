"""Errors of ours as Airflow's: retried only where the next try could meet another state, and left where commands read them.

Each error keeps its class, so that `except SourceError` still catches it, and is an AirflowException besides; one that a
retry cannot change is an AirflowFailException, which Airflow does not retry whatever the task's `retries`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    MissingPrivilegeError,
    NotAgreedError,
    OffsetRejectedError,
    PositionError,
    SchemaError,
    UnreportedChangeError,
    UsageError,
)
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.core.text import shorten
from airflow_cdc.names import REASON

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger("airflow_cdc.operators")

F = TypeVar("F", bound=Callable[..., object])

# somebody has to change something first
HOPELESS: Final = (
    ConfigError,
    UsageError,
    PositionError,
    MissingPrivilegeError,
    SchemaError,
    NotAgreedError,
    OffsetRejectedError,
)
# … but here the connector may only have to read on
PASSING: Final = (UnreportedChangeError,)
ENTRIES: Final = ("execute", "execute_complete", "told")
# characters of a reason that are left; the whole is in the task's log
MOST: Final = 2000


def airflow_error(error: CdcError) -> CdcError:
    """`error`, as an exception of Airflow too."""
    if isinstance(error, AirflowException):
        return error
    hopeless = isinstance(error, HOPELESS) and not isinstance(error, PASSING)
    kind: Any = type(error)  # mypy regards a class as unhashable
    copy = _class(kind, AirflowFailException if hopeless else AirflowException)
    raised = cast("CdcError", copy.__new__(copy, error.what))
    raised.__dict__.update(error.__dict__)
    return raised.with_traceback(error.__traceback__)


@cache
def _class(ours: Any, airflow: Any) -> Any:
    def reduced(self: CdcError) -> tuple[object, ...]:
        # in another process it is our error: a class made here has no name there
        return ours.__reduce__(_plain(ours, self))  # type: ignore[no-any-return]

    return type(ours.__name__, (ours, airflow), {"__module__": ours.__module__, "__reduce__": reduced})


def _plain(ours: type[CdcError], error: CdcError) -> CdcError:
    plain = ours.__new__(ours, error.what)
    plain.__dict__.update(error.__dict__)
    return plain


def _translated(method: F) -> F:
    @wraps(method)
    def run(*args: Any, **kwargs: Any) -> object:
        context = kwargs.get("context") or (args[1] if len(args) > 1 else None)
        try:
            return method(*args, **kwargs)
        except CdcError as error:
            leave(context, str(error))
            raise airflow_error(error) from error.__cause__
        except Exception as error:
            leave(context, text_of(error))
            raise

    return cast("F", run)


def text_of(error: Exception) -> str:
    """An error that isn't ours, as a line: Airflow's own say what happened, others also need their name."""
    return str(error) if isinstance(error, AirflowException) else f"{type(error).__name__}: {error}"


def leave(context: Context | None, reason: str) -> None:
    """Leave the reason why a task fails or skips itself. Without it a command that waits could only name the task."""
    push = getattr((context or {}).get("ti"), "xcom_push", None)
    if push is None or not reason:
        return
    try:
        push(key=REASON, value=shorten(" ".join(mask_text(reason).split()), MOST))
    except Exception as error:  # the task's own error matters, and Airflow may be what failed
        log.warning("the reason was not left for commands: %s", error)


class FailFast:
    """Base of operators: what Airflow calls raises errors that Airflow knows how to retry.

    Not of sensors: with `soft_fail`, Airflow skips a resumed sensor for any AirflowException, so that a position that was
    lost would be skipped in the triggerer and fail on the worker.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        for name in ENTRIES:
            if name in cls.__dict__:
                setattr(cls, name, _translated(cls.__dict__[name]))
