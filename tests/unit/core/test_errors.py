from __future__ import annotations

import inspect
import pickle

import pytest

from airflow_cdc.core import errors
from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    ConnectorError,
    DeadlineError,
    LeaseHeldError,
    NotAllowedError,
    OffsetRejectedError,
    StaleHeadError,
    UnknownStateError,
    UsageError,
    VerificationError,
)

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, CdcError)]


@pytest.mark.parametrize(
    ("where", "todo", "text"),
    [
        ("", "", "it broke"),
        ("shop", "", "it broke (shop)"),
        ("", "Mend it.", "it broke. Mend it."),
        ("shop", "Mend it.", "it broke (shop). Mend it."),
    ],
)
def test_text_is_what_where_todo(where: str, todo: str, text: str) -> None:
    assert str(CdcError("it broke", where=where, todo=todo)) == text


def test_a_sentence_that_has_ended_gets_no_second_full_stop() -> None:
    assert str(CdcError("Is it on?", todo="Look.")) == "Is it on? Look."
    said = "The server says: Lost connection."
    assert str(CdcError(f"{said}.", where="db", todo=f"{said}. Wait … or more... See ../x.")) == (
        f"{said} (db). {said} Wait … or more... See ../x."
    )


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_survives_pickling(cls: type[CdcError]) -> None:
    error = cls("it broke", where="shop", todo="Mend it.")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is cls
    assert str(again) == str(error)
    assert again.args == error.args
    assert again.to_json() == error.to_json()


@pytest.mark.parametrize(
    ("error", "attribute", "value"),
    [
        (StaleHeadError("moved", commits=("7 append",), only_replace=True), "commits", ("7 append",)),
        (StaleHeadError("moved", only_replace=True), "only_replace", True),
        (LeaseHeldError("held", owner="r1", expires_at="soon"), "owner", "r1"),
        (OffsetRejectedError("no", reasons=("pos",)), "reasons", ("pos",)),
        (ConnectorError("no", status=409), "status", 409),
        (DeadlineError("late", timeout=3.0, last="PAUSED"), "last", "PAUSED"),
        (VerificationError("no", verdict="INCONCLUSIVE"), "verdict", "INCONCLUSIVE"),
    ],
)
def test_structured_attributes_survive_pickling(error: CdcError, attribute: str, value: object) -> None:
    assert getattr(pickle.loads(pickle.dumps(error)), attribute) == value  # noqa: S301


def test_exit_statuses() -> None:
    statuses: dict[int, set[type[CdcError]]] = {cls.exit_status: set() for cls in CLASSES}
    for cls in CLASSES:
        statuses[cls.exit_status].add(cls)
    assert statuses[2] == {ConfigError, UsageError, NotAllowedError}
    assert statuses[3] == {UnknownStateError}
    assert set(statuses) == {1, 2, 3}
