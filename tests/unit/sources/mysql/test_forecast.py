"""The forecast against the server's own rule, replayed: when the file of a position really goes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.forecast import Retention, snapshot_fits
from airflow_cdc.sources.mysql.forecast import LogFile, forecast, purge_forecast

DAY = 86400.0
FILE = 1_000_000
SEEN = 8


@dataclass(frozen=True)
class World:
    """A server's log, replayed: file n begins at begins[n], when file n - 1 was rotated away."""

    begins: list[float]
    expire: float

    def newest(self, now: float) -> int:
        """The file that is written to at a time."""
        return max(n for n, began in enumerate(self.begins) if began <= now)

    def gone(self, file: int) -> float | None:
        """When a file is purged: at the first rotation after it was closed for `expire` seconds. None: after the replay."""
        if file + 1 >= len(self.begins):
            return None
        due = self.begins[file + 1] + self.expire
        return next((at for at in self.begins if at >= due), None)

    def read(self, file: int, now: float) -> tuple[Retention, list[LogFile], bool]:
        """What the server tells at a time."""
        newest = self.newest(now)
        closed = self.begins[file + 1] if file < newest else None
        files = [LogFile(f"b.{n:06}", FILE, self.begins[n]) for n in range(max(0, newest + 1 - SEEN), newest + 1)]
        return Retention(int(self.expire), now, closed), files, file == newest


def rotations(gap: Callable[[float], float], until: float) -> list[float]:
    """Times of rotation; `gap` gives the seconds to the next one at a time."""
    times = [0.0]
    while times[-1] < until:
        times.append(times[-1] + max(1.0, gap(times[-1])))
    return times


HISTORIES: dict[str, Callable[[random.Random], Callable[[float], float]]] = {
    "steady": lambda r: lambda _t: r.uniform(3000, 4200),
    "nearly quiet, rotated by a daily job": lambda _r: lambda _t: DAY,
    "busy by day, still by night": lambda r: lambda t: r.uniform(600, 900) * (1 if 8 <= (t % DAY) / 3600 < 20 else 6),
    "bursts": lambda r: lambda _t: r.choice((120, 240, 3600)) * r.uniform(0.8, 1.2),
    "growing load": lambda r: lambda t: 7200 / (1 + t / (20 * DAY)) * r.uniform(0.9, 1.1),
}


def asked(name: str, expire: float = 2 * DAY) -> Iterator[tuple[World, int, float]]:
    """(history, file of the position, time of asking), many of each history: newest, just closed, long closed files."""
    for seed in range(40):
        r = random.Random(f"{name}{seed}")
        world = World(rotations(HISTORIES[name](r), 30 * DAY), expire)
        for _ in range(5):
            now = r.uniform(3 * DAY, 20 * DAY)
            alive = [n for n in range(world.newest(now) + 1) if (world.gone(n) or now + 1) > now]
            yield world, r.choice(alive), now


@pytest.mark.parametrize("name", HISTORIES)
def test_the_real_purge_falls_into_the_interval_and_never_before_it(name: str) -> None:
    inside, total = 0, 0
    for world, file, now in asked(name):
        gone = world.gone(file)
        if gone is None:
            continue
        retention, files, newest = world.read(file, now)
        seen = forecast(retention, files, in_newest_file=newest, max_size=FILE)
        assert seen.earliest_s is not None
        real = gone - now
        assert seen.earliest_s <= real * 1.1 + 1e-6
        assert seen.latest_s is not None
        inside += seen.earliest_s - 1e-6 <= real <= seen.latest_s
        total += 1
    assert total > 150
    assert inside >= 0.9 * total, f"{inside} of {total}"


@pytest.mark.parametrize("name", HISTORIES)
def test_a_warning_comes_before_every_purge_that_its_time_covers(name: str) -> None:
    warn = 6 * 3600.0
    for world, file, _ in asked(name):
        gone = world.gone(file)
        if gone is None or file == 0:
            continue
        last_look = gone - 60.0  # asked a minute before it goes, and half an hour after it became a closed file
        for now in (last_look, max(world.begins[file + 1] + 1800.0, gone - warn + 60.0)):
            retention, _, newest = world.read(file, now)
            seen = purge_forecast(retention, in_newest_file=newest)
            assert seen is not None
            if not newest and gone - now <= warn:
                assert seen.earliest_s is not None
                assert seen.earliest_s < warn


def test_a_quiet_tables_offset_ages_out_at_a_rotation_it_had_no_part_in() -> None:
    world = World([0.0, 100.0, 2 * DAY + 50.0, 2 * DAY + 200.0], 2 * DAY)
    retention, files, newest = world.read(0, 2 * DAY + 60.0)
    seen = forecast(retention, files, in_newest_file=newest)
    assert seen.earliest_s == pytest.approx(40.0)
    assert world.gone(0) == 2 * DAY + 200.0
    late = purge_forecast(world.read(0, 2 * DAY + 150.0)[0], in_newest_file=False)
    assert late is not None
    assert late.earliest_s == 0.0  # due: the next rotation takes it


def test_a_server_that_keeps_its_log_promises_no_end() -> None:
    seen = forecast(Retention(0, 1000.0, 1.0), [], in_newest_file=False)
    assert (seen.earliest_s, seen.latest_s) == (None, None)
    assert snapshot_fits(Retention(0, 1000.0), 1e9)


def test_without_the_time_a_file_was_closed_nothing_is_promised() -> None:
    seen = forecast(Retention(3600, 1000.0, None), [], in_newest_file=False)
    assert (seen.earliest_s, seen.latest_s) == (0.0, None)
    assert purge_forecast(Retention(3600, 1000.0, None), in_newest_file=False) is None


def test_rates_come_from_closed_files_with_known_times() -> None:
    files = [LogFile("b.1", 1000, 0.0), LogFile("b.2", 3000, 10.0), LogFile("b.3", 99, 30.0)]
    seen = forecast(Retention(100, 40.0, 30.0), files, in_newest_file=False)
    assert seen.write_bytes_s == pytest.approx(4000 / 30)
    assert seen.rotation_s == pytest.approx(15.0)
    alone = forecast(Retention(100, 40.0), files[-1:], in_newest_file=True)
    assert (alone.write_bytes_s, alone.rotation_s, alone.latest_s) == (None, None, None)


def test_a_snapshot_fits_if_it_ends_before_its_watermark_can_go() -> None:
    assert snapshot_fits(Retention(3600, 0.0), 3599)
    assert not snapshot_fits(Retention(3600, 0.0), 3600)


@given(
    expire=st.integers(1, 10**7),
    age=st.floats(0, 1e7),
    gaps=st.lists(st.floats(1, 1e6), max_size=8),
    newest=st.booleans(),
)
def test_the_interval_begins_at_the_rule_and_does_not_end_before_it(
    expire: int, age: float, gaps: list[float], newest: bool
) -> None:
    now = 1e9
    times = [now - age - sum(gaps[n:]) for n in range(len(gaps) + 1)]
    files = [LogFile(f"b.{n}", FILE, at) for n, at in enumerate(times)]
    seen = forecast(Retention(expire, now, None if newest else now - age), files, in_newest_file=newest, max_size=FILE)
    assert seen.earliest_s == (expire if newest else pytest.approx(max(0.0, expire - age), abs=1e-3))
    if seen.latest_s is not None:
        assert seen.latest_s > (seen.earliest_s or 0.0)
