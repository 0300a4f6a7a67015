"""The reader that asks before it reads: when it waits, what it says, and what is open meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock, create_autospec

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.core.ports import SourceLoad
from airflow_cdc.decisions.compare.chunk import Chunk
from airflow_cdc.decisions.compare.leaves import HashLeaves, KeyHash
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.spark_apps.driver import throttle
from airflow_cdc.spark_apps.driver.throttle import FEW_KEYS, Gate, throttled
from airflow_cdc.spark_apps.ports import RowReader, SourceView, connection_limit
from airflow_cdc.spark_apps.ports_few import ReadsFewRows
from tests.unit.tables import column, table

LIMITS = ThrottlePolicy(threads_running=8)
AT: Any = "watermark"
TABLE = table(column("id", "int"))


class FewReader(RowReader, ReadsFewRows):
    """Both ports in one."""


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "ASK_SECONDS", 0.001)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is logged."""
    seen: list[str] = []
    monkeypatch.setattr(throttle.log, "info", lambda text, *args: seen.append(text % args))
    return seen


def gate(*running: int, seconds: float = 60.0, limits: ThrottlePolicy = LIMITS) -> Gate:
    """A gate whose source tells these numbers, the last one again and again."""
    left = list(running)

    def load(asked: ThrottlePolicy) -> SourceLoad:
        assert asked is limits
        return SourceLoad(left.pop(0) if len(left) > 1 else left[0])

    return Gate(load, limits, seconds, "pipeline shop, run r1")


def never(_: ThrottlePolicy) -> SourceLoad:
    raise AssertionError("the source is asked, though nothing depends on it")


# ---- the gate -------------------------------------------------------------------------------------------


def test_a_quiet_source_is_read_at_once_and_nothing_is_said(lines: list[str]) -> None:
    one = gate(3)
    one.wait("shop.t")
    assert (lines, one.waited, one.closed) == ([], 0.0, False)


def test_a_busy_source_is_waited_for_with_one_line_at_the_begin_and_one_at_the_end(lines: list[str]) -> None:
    gate(14, 14, 11, 8).wait("shop.t")
    assert lines[0] == "shop.t: reading waits: threads_running is 14, and policy.throttle allows 8"
    assert lines[1:] == ["shop.t: reading goes on after 0 s: threads_running is 8"]


def test_a_source_that_stays_busy_ends_the_read_and_names_limit_and_way_out(lines: list[str]) -> None:
    with pytest.raises(SourceError) as caught:
        gate(14, seconds=0.05).wait("shop.t")
    text = str(caught.value)
    assert "threads_running is 14, and policy.throttle allows 8" in text
    assert "pipeline shop, run r1, table shop.t" in text
    assert "raise the limit under policy.throttle" in text
    assert len(lines) == 1


def test_all_waits_together_are_limited() -> None:
    """Or a comparison of a hundred tables would wait a hundred times as long."""
    one, asked = gate(14, seconds=0.05), list[ThrottlePolicy]()

    def load(limits: ThrottlePolicy) -> SourceLoad:
        asked.append(limits)
        return SourceLoad(14)

    with pytest.raises(SourceError):
        one.wait("shop.t")
    assert one.waited >= 0.05
    one.load = load
    with pytest.raises(SourceError):
        one.wait("shop.t")
    assert len(asked) == 1
    one.load = lambda _: SourceLoad(1)
    one.wait("shop.t")  # whatever was waited before, a quiet source is read


def test_a_lag_that_is_not_known_is_waited_for() -> None:
    limits = ThrottlePolicy(replica_lag=30)
    answers = [SourceLoad(lag_unknown="its replication is stopped")] * 2 + [SourceLoad(lag_s=3.0)]
    Gate(lambda _: answers.pop(0), limits, 60.0, "here").wait("shop.t")
    assert answers == []


def test_what_is_not_limited_is_not_asked() -> None:
    one = Gate(never, ThrottlePolicy(connections=1), 60.0, "here")
    one.wait("shop.t")
    assert not one.closed


def test_a_source_that_cannot_be_asked_is_not_read() -> None:
    def refuses(_: ThrottlePolicy) -> SourceLoad:
        raise SourceError("no")

    with pytest.raises(SourceError, match=r"^no$"):
        Gate(refuses, LIMITS, 60.0, "here").wait("shop.t")


def test_threads_wait_one_after_the_other(lines: list[str]) -> None:
    one = gate(14, 14, 14, 2)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one.wait, ["shop.t"] * 8))
    assert len(lines) == 2


# ---- the reader -----------------------------------------------------------------------------------------


@pytest.fixture
def inner() -> Any:
    """A reader of 5 chunks, which notes what is done with it."""
    reader: Any = create_autospec(FewReader, instance=True)
    reader.events = events = []

    def chunks(_: Any, after: Any, _rows: int, *, at: Any, ahead: int, beside: bool) -> Generator[list[Chunk]]:
        assert at is AT
        events.append(f"opened after {after}, {ahead} at a time{', ahead' if beside else ''}")
        try:
            for begin in range(after[0] if after else 0, 5, ahead):
                ends = range(begin + 1, min(begin + ahead, 5) + 1)
                yield [Chunk((end - 1,), (end,) if end < 5 else None) for end in ends]
        finally:
            events.append("closed")

    @contextmanager
    def view(one: Any, *, at: Any) -> Iterator[Any]:
        events.append("view opened")
        yield create_autospec(SourceView, instance=True)

    @contextmanager
    def views(some: Any, *, at: Any) -> Iterator[Any]:
        events.append("views opened")
        yield [create_autospec(SourceView, instance=True) for _ in some]

    reader.chunks, reader.view, reader.views = chunks, view, views
    return reader


def noting(inner: Any, *running: int, each: int | None = None, limits: ThrottlePolicy = LIMITS) -> Any:
    """The reader under test; what the source is asked is noted among what is done."""
    one = gate(*running, limits=limits)
    load = one.load
    one.load = lambda asked: (inner.events.append("asked"), load(asked))[1]
    return throttled(inner, one, each)


def test_without_limits_the_reader_is_the_same(inner: Any) -> None:
    assert throttled(inner, Gate(never, ThrottlePolicy(), 1.0, "here")) is inner
    assert connection_limit(inner) == 0
    assert connection_limit(throttled(inner, Gate(never, ThrottlePolicy(connections=3), 1.0, "here"), 3)) == 3


def test_before_each_group_the_source_is_asked(inner: Any) -> None:
    groups = noting(inner, 1).chunks(TABLE, None, 10, at=AT, ahead=2)
    assert next(groups)[0].lo == (0,)
    assert inner.events == ["asked", "opened after None, 2 at a time, ahead"]
    assert [len(group) for group in groups] == [2, 1]
    assert inner.events[2:] == ["asked", "asked", "closed"]


def test_nothing_is_open_while_a_group_waits_and_none_is_left_out(inner: Any) -> None:
    groups = list(noting(inner, 1, 1, 20, 20, 2).chunks(TABLE, None, 10, at=AT, ahead=2))
    chunks = [chunk for group in groups for chunk in group]
    assert [chunk.lo for chunk in chunks] == [(0,), (1,), (2,), (3,), (4,)]
    assert inner.events == [
        "asked",
        "opened after None, 2 at a time, ahead",
        "asked",
        "asked",
        "closed",
        "asked",
        "asked",
        "opened after (4,), 2 at a time, ahead",
        "closed",
    ]


def test_few_connections_read_few_chunks_at_a_time_and_look_no_ends_up_beside_them(inner: Any) -> None:
    reader = noting(inner, 1, each=2, limits=ThrottlePolicy(connections=2))
    assert [len(group) for group in reader.chunks(TABLE, None, 10, at=AT, ahead=8)] == [2, 2, 1]
    assert inner.events == ["opened after None, 2 at a time", "closed"]
    assert reader.rows("spark", TABLE, [Chunk()], at=AT) is inner.rows.return_value.coalesce.return_value
    of_keys = reader.rows_of_keys("spark", TABLE, ["1"], at=AT)
    assert of_keys is inner.rows_of_keys.return_value.coalesce.return_value
    inner.rows.return_value.coalesce.assert_called_once_with(2)
    inner.rows_of_keys.return_value.coalesce.assert_called_once_with(2)
    used: list[Any] = []
    reader.rows_at_exactly("spark", TABLE, used.append, at=AT)
    inner.rows_at_exactly.call_args.args[2](frame := inner.rows.return_value)
    assert used == [frame.coalesce.return_value]


def read_small(reader: Any) -> None:
    with reader.few_rows(at=AT) as few:
        few(TABLE, most_rows=1, most_bytes=1)


@pytest.mark.parametrize(
    ("read", "done"),
    [
        (lambda r: r.rows_at_exactly("spark", TABLE, print, at=AT), "rows_at_exactly"),
        (lambda r: r.outside_hash("spark", TABLE, WHOLE, at=AT), "outside_hash"),
        (read_small, "few_rows"),
        (lambda r: r.rows_of_keys("spark", TABLE, ["k"] * (FEW_KEYS + 1), at=AT), "rows_of_keys"),
    ],
)
def test_the_source_is_asked_before_it_is_read(inner: Any, read: Callable[[Any], object], done: str) -> None:
    """And so before a table without a key is locked."""
    getattr(inner, done).side_effect = lambda *_, **__: inner.events.append(done) or MagicMock()
    read(noting(inner, 20, 20, 1))
    assert inner.events == ["asked"] * 3 + [done]


def test_a_few_keys_are_not_waited_for(inner: Any) -> None:
    noting(inner, 20).rows_of_keys("spark", TABLE, ["k"] * FEW_KEYS, at=AT)
    assert inner.events == []


def test_the_source_is_asked_before_a_view_is_opened_and_before_its_table_is_digested(inner: Any) -> None:
    reader, scheme = noting(inner, 20, 1, 20, 1), HashLeaves(1, KeyHash.CRC32)
    with reader.view(TABLE, at=AT) as view:
        assert inner.events == ["asked", "asked", "view opened"]
        assert view.leaves(scheme, WHOLE) is view.view.leaves.return_value
    assert inner.events[3:] == ["asked", "asked"]
    assert view.position is view.view.position
    for name, args in (("count", ()), ("bounds", ()), ("hashes", (scheme, [1], WHOLE)), ("images", (["1"], WHOLE))):
        assert getattr(view, name)(*args) is getattr(view.view, name).return_value
    with reader.views([TABLE, TABLE], at=AT) as two:
        assert inner.events[5:] == ["asked", "views opened"]
    assert [one.table for one in two] == ["shop.t", "shop.t"]


def test_all_else_is_the_readers_own(inner: Any) -> None:
    reader = noting(inner, 20)
    for name in ("bounds", "sizes", "defaults", "read_position", "covered"):
        assert getattr(reader, name)("x") is getattr(inner, name).return_value
    reader.wait_visible(AT, 1.0)
    inner.wait_visible.assert_called_once_with(AT, 1.0)
    assert reader.judge_ddl(None, [], TABLE) is inner.judge_ddl.return_value
    assert (reader.key_hash, reader.exact_views) == (inner.key_hash, inner.exact_views)
    assert isinstance(reader, ReadsFewRows)
    assert not isinstance(throttled(create_autospec(RowReader, instance=True), gate(1)), ReadsFewRows)
