"""What every source must do, on a real server."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import ClassVar, Protocol

import pytest

from airflow_cdc.core.endpoint import CallLimits, DataEndpoint
from airflow_cdc.core.errors import CdcError, PositionError, SourceError
from airflow_cdc.core.kind import SourceKind
from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.ports import Source, SourceLoad
from airflow_cdc.core.position import Availability, Position, Watermark
from airflow_cdc.kinds import read_position

VISIBLE_SECONDS = 30.0
BUSY = 3


class SourceBench(Protocol):
    """Writes to, reads and damages one kind of source for a test."""

    @property
    def kind(self) -> SourceKind: ...

    @property
    def endpoint(self) -> DataEndpoint: ...

    def write(self) -> None:
        """Commit a change to a table."""
        ...

    def position(self) -> Position:
        """The end of the log, read without the client under test."""
        ...

    def purge(self) -> None:
        """Remove from the log everything written up to now; later writes stay."""
        ...

    def busy(self, statements: int) -> AbstractContextManager[None]:
        """So many statements of others run as long as the block lasts. Only for a source that Spark can read."""
        ...

    def unreachable(self) -> DataEndpoint:
        """An endpoint of the same kind where no server answers."""
        ...


class _Elsewhere:
    """A position of a source kind that does not exist."""

    kind: ClassVar[str] = "elsewhere"

    def covers(self, other: Position) -> bool | None:
        return True if other is self else None

    def __str__(self) -> str:
        return "elsewhere:1"

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind}


class SourceContract:
    """Subclass it and provide the fixture `bench`, a SourceBench. A test may purge the server's log."""

    @pytest.fixture
    def source(self, bench: SourceBench) -> Source:
        """The client under test."""
        return bench.kind.client.load()(bench.endpoint)

    @pytest.fixture
    def recoverable(self, bench: SourceBench) -> None:
        """For tests that apply only to a source that Spark can read."""
        if bench.kind.reader is None:
            pytest.skip(f"{bench.kind.title} is diagnosed, not recovered: see test_what_is_not_offered_is_refused")

    # ---- positions ----------------------------------------------------------------------------------

    def test_a_later_position_covers_an_earlier_one_and_not_the_reverse(self, bench: SourceBench) -> None:
        before = bench.position()
        bench.write()
        after = bench.position()
        assert after.covers(before) is True
        assert before.covers(after) is False
        assert before.covers(before) is True

    def test_a_position_of_another_kind_does_not_compare(self, bench: SourceBench) -> None:
        assert bench.position().covers(_Elsewhere()) is None

    def test_a_position_is_read_back_from_json_by_its_kind(self, bench: SourceBench) -> None:
        position = bench.position()
        written = json.loads(json.dumps(position.to_json()))
        assert position.kind == written["kind"] == bench.kind.name
        assert read_position(written) == position
        assert str(position)

    @pytest.mark.parametrize("damage", ["empty", "without a part", "of another type"])
    def test_a_damaged_position_is_an_error_that_says_so(self, bench: SourceBench, damage: str) -> None:
        written = bench.position().to_json()
        parts = {key: value for key, value in written.items() if key != "kind"}
        kind, first = {"kind": written["kind"]}, next(iter(parts))
        damaged = {
            "empty": kind,
            "without a part": {key: value for key, value in written.items() if key != first},
            "of another type": kind | {key: [[]] for key in parts},
        }
        with pytest.raises(PositionError):
            read_position(damaged[damage])

    # ---- availability -------------------------------------------------------------------------------

    def test_a_position_is_there_until_the_log_behind_it_is_purged(self, bench: SourceBench, source: Source) -> None:
        before = bench.position()
        bench.write()
        assert source.availability(before).state is Availability.AVAILABLE
        bench.purge()
        lost = source.availability(before)
        assert (lost.state, bool(lost)) == (Availability.LOST, False)
        assert lost.why

    def test_the_end_of_the_log_is_there(self, bench: SourceBench, source: Source) -> None:
        bench.write()
        bench.purge()
        assert source.availability(bench.position()).state is Availability.AVAILABLE

    def test_a_position_of_another_kind_is_never_there(self, source: Source) -> None:
        with pytest.raises(PositionError):
            source.availability(_Elsewhere())

    # ---- watermarks ---------------------------------------------------------------------------------

    @pytest.mark.usefixtures("recoverable")
    def test_a_watermark_is_covered_by_what_is_visible(self, bench: SourceBench, source: Source) -> None:
        bench.write()
        watermark = source.watermark()
        source.wait_visible(watermark, VISIBLE_SECONDS)
        assert source.position().position.covers(watermark.position) is True
        assert source.availability(watermark.position)

    @pytest.mark.usefixtures("recoverable")
    def test_a_watermark_does_not_cover_what_is_written_after_it(self, bench: SourceBench, source: Source) -> None:
        watermark = source.watermark()
        bench.write()
        assert watermark.position.covers(source.position().position) is False

    @pytest.mark.usefixtures("recoverable")
    def test_a_watermark_is_read_back_from_json(self, source: Source) -> None:
        watermark = source.watermark()
        again = Watermark.from_json(json.loads(json.dumps(watermark.to_json())), read_position)
        assert (again, again.hash) == (watermark, watermark.hash)

    @pytest.mark.usefixtures("recoverable")
    def test_a_watermark_is_of_one_server(self, source: Source) -> None:
        watermark = source.watermark()
        source.check_same_server(watermark)
        with pytest.raises(SourceError):
            source.check_same_server(replace(watermark, server="00000000-0000-0000-0000-000000000001"))

    # ---- load ---------------------------------------------------------------------------------------

    @pytest.mark.usefixtures("recoverable")
    def test_statements_of_others_are_its_load_and_a_primary_is_not_behind(
        self, bench: SourceBench, source: Source
    ) -> None:
        limits = ThrottlePolicy(threads_running=1, replica_lag=1)
        before = source.load(limits)
        with bench.busy(BUSY):
            during = source.load(limits)
        others = (during.running or 0) - BUSY
        assert others >= 0
        poll_until(lambda: (source.load(limits).running or 0) <= others or None, timeout=30, what="the load to end")
        assert (before.lag_s, before.lag_unknown) == (None, "")

    @pytest.mark.usefixtures("recoverable")
    def test_only_what_is_limited_is_asked(self, source: Source) -> None:
        assert source.load(ThrottlePolicy(connections=1)) == SourceLoad()
        assert source.load(ThrottlePolicy(replica_lag=1)).running is None

    def test_what_is_not_offered_is_refused(self, bench: SourceBench, source: Source) -> None:
        """A client may offer a watermark before its kind names a reader: every plan is still refused."""
        if bench.kind.reader is not None:
            pytest.skip(f"{bench.kind.title} is recovered")
        if (watermark := _offered_watermark(source)) is not None:
            source.check_same_server(watermark)

    # ---- errors -------------------------------------------------------------------------------------

    def test_a_server_that_does_not_answer_is_a_typed_error(self, bench: SourceBench) -> None:
        limits = CallLimits(answer=1.0, retry=1.0, read=1.0, topic=1.0)
        source = bench.kind.client.load()(bench.unreachable().limited(limits))
        with pytest.raises(CdcError) as caught:
            source.availability(bench.position())
        assert isinstance(caught.value, SourceError)
        assert bench.unreachable().where in str(caught.value)


def _offered_watermark(source: Source) -> Watermark | None:
    """W if the client offers one; None if it refuses, which it must do with a SourceError."""
    try:
        taken: Watermark = source.watermark()
    except SourceError:
        return None
    return taken
