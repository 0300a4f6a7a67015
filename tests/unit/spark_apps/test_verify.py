"""Catching up on rows that events could not be applied to ends, however fast such events come."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.spark_apps import verify

TABLE = "shop.orders"


def letter(offset: int, table: str = TABLE) -> DeadLetter:
    return DeadLetter("p.shop.orders", "t1", 0, offset, b"k", b"v", table, "a reason", 1, datetime.now(UTC))


@pytest.mark.parametrize("coming", [0, 2, 100])
def test_inv_31_letters_that_keep_coming_do_not_keep_verify_from_ending(
    coming: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read again after the last time that the stages catch up: what is compared would be older than it."""
    steps: list[str] = []
    left = iter(range(coming))
    monkeypatch.setattr(verify, "reach", lambda *_: ("reached", {}))
    monkeypatch.setattr(verify, "catch_up", lambda *_, **__: steps.append("catch up"))

    def put_right() -> bool:
        steps.append("read again")
        return next(left, None) is not None

    verify._caught_up(cast("Any", None), cast("Any", None), cast("Any", None), 1.0, put_right)
    times = min(coming + 1, verify.CATCH_UPS)
    assert steps.count("catch up") == times
    assert steps.count("read again") == min(times, verify.CATCH_UPS - 1)
    assert coming < verify.CATCH_UPS or steps[-1] == "catch up"


def test_inv_31_that_they_keep_coming_is_said() -> None:
    letters = [letter(1), letter(2), letter(3), letter(4, "shop.other")]

    def unresolved(_pipeline: str, table: str = "") -> list[DeadLetter]:
        return [one for one in letters if table in ("", one.table)]

    sink = SimpleNamespace(unresolved_letters=unresolved)
    run = cast("Any", SimpleNamespace(pipeline=SimpleNamespace(name="p"), clients=SimpleNamespace(sink=sink)))
    keyed = SimpleNamespace(keyless=False, full_name=TABLE)
    task = cast("Any", SimpleNamespace(definitions={TABLE: keyed, "shop.other": keyed}))
    outcome = cast("Any", SimpleNamespace(subject=SimpleNamespace(table=keyed)))
    read = {letter(1).place}
    again = verify.LettersAgain(run, cast("Any", None), task, {}, tried=set(read), right=set(read))
    waiting, coming = again.caveats(run, outcome)
    assert waiting.startswith("2 records")
    assert coming.startswith("2 of them came after the others' rows had been read again")
    again.tried |= {one.place for one in letters}
    assert len(again.caveats(run, outcome)) == 1  # all were tried: those that are left cannot be read
    again.right |= {one.place for one in letters}
    assert again.caveats(run, outcome) == ()
