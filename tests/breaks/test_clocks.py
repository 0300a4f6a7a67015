"""Clocks that are hours off, that jump, and that leave summer time in the middle of a night."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.errors import ServerRestartedError
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import wait_until
from tests.breaks.conftest import LakeAndSpark
from tests.breaks.preloaded import Clock
from tests.breaks.struck import APPLY, BACKFILL, NIGHTLY, REPAIR, Application, Fault, Strikes
from tests.breaks.worlds import Servers, StruckMySql
from tests.integration.mariadb.support import purge
from tests.paths import ROOT

pytestmark = pytest.mark.timeout(1800)

HOUR = 3600


@contextmanager
def with_environment(**more: str) -> Iterator[None]:
    """For what is started meanwhile."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Clock:
    return Clock.make(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def berlin(servers: Servers, clock: Clock) -> MySqlServer:
    """A server with a clock of its own, in a zone that has summer time."""
    with with_environment(**clock.env, TZ="Europe/Berlin"):
        return servers.stack.add_mysql(MySqlSettings(name="mysql-clock", server_id=105, max_binlog_size=4194304))


@pytest.fixture(scope="module")
def struck(
    servers: Servers, berlin: MySqlServer, local: LakeAndSpark, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Strikes]:
    """Its database, read without a proxy."""
    name = f"b_{uuid.uuid4().hex[:8]}"
    berlin.execute(f"CREATE DATABASE {name}")
    assert servers.stack.kafka is not None
    assert servers.stack.connect is not None
    world = StruckMySql(
        berlin, local.spark, local.lake, servers.stack.kafka.bootstrap, servers.stack.connect.url,
        tmp_path_factory.mktemp("reports"), name, ("orders", "events"), at=berlin.port, broker=servers.bootstrap,
    )  # fmt: skip
    world.follow()
    strikes = Strikes("clock", world, (berlin.cdc.password, berlin.password))
    yield strikes
    world.connector.delete(name)


def server_time(server: MySqlServer) -> datetime:
    """The server's own clock."""
    ((now,),) = server.execute("SELECT UTC_TIMESTAMP()")
    return datetime.fromisoformat(str(now)).replace(tzinfo=UTC)


def shifted(server: MySqlServer, clock: Clock, hours: int) -> Fault:
    """Struck: the server's clock is so many hours off."""

    def off() -> int:
        return abs(server_time(server) - datetime.now(UTC) - timedelta(hours=hours)) < timedelta(minutes=1)

    @contextmanager
    def armed() -> Iterator[Callable[[], int]]:
        clock.shift(hours * HOUR)
        yield off

    return Fault(f"the source's clock {hours:+} h", armed)


def summer_ends(server: MySqlServer, clock: Clock) -> Fault:
    """Struck: it ended meanwhile."""
    change = datetime(2026, 10, 25, 1, tzinfo=UTC)  # 03:00 becomes 02:00

    @contextmanager
    def armed() -> Iterator[Callable[[], int]]:
        shift = int((change - datetime.now(UTC)).total_seconds()) - 2
        clock.shift(shift)
        near = change - timedelta(seconds=shift + 0.2)
        wait_until(
            lambda: datetime.now(UTC) > near or None, timeout=10, interval=0.02, what="the last moment of summer time"
        )
        yield lambda: server_time(server) >= change

    return Fault("summer time ends", armed)


@pytest.mark.parametrize("application", [APPLY, NIGHTLY, REPAIR, BACKFILL], ids=lambda one: one.name)
def test_a_source_whose_clock_is_hours_off(
    berlin: MySqlServer, clock: Clock, struck: Strikes, application: Application
) -> None:
    """It jumps before the application runs, so that what was committed before has another time than what comes."""
    cells = struck.strike(application, [shifted(berlin, clock, hours) for hours in (5, -5)])
    assert all(cell.struck and not cell.said for cell in cells), cells


def test_a_recovery_from_a_source_whose_clock_is_hours_off(berlin: MySqlServer, clock: Clock, struck: Strikes) -> None:
    """And jumps back while the connector stands, not to before the server's start: see check_same_server."""
    world: Any = struck.world
    clock.shift(5 * HOUR)
    world.change()
    world.apply("before")
    world.connector.stop(world.database)
    world.change()
    clock.shift(2 * HOUR)
    world.change()
    purge(berlin)
    world.connector.resume(world.database)
    world.failure()
    done = world.recover(f"rec-{uuid.uuid4().hex[:6]}")
    assert done["verify"]["verdict"] == "MATCH", done["verify"]
    APPLY.done(world, None)


@pytest.mark.parametrize("application", [APPLY, NIGHTLY, REPAIR], ids=lambda one: one.name)
def test_summer_time_ends_in_the_middle_of_a_night(
    berlin: MySqlServer, clock: Clock, struck: Strikes, application: Application
) -> None:
    """02:30 comes twice in the server's zone: TIMESTAMPs of both hours look alike there, and no row is lost or changed."""
    clock.shift(int((datetime(2026, 10, 25, 0, 58, tzinfo=UTC) - datetime.now(UTC)).total_seconds()))
    (cell,) = struck.strike(application, [summer_ends(berlin, clock)])
    assert cell.struck, cell
    assert not cell.said, cell


def test_inv_09_a_restart_is_noticed_though_the_clock_was_set_back(
    servers: Servers, berlin: MySqlServer, clock: Clock
) -> None:
    clock.shift(0)
    source = MySqlSource(MySqlEndpoint(berlin.host, berlin.port, berlin.cdc.user, berlin.cdc.password))
    watermark = source.watermark()
    source.check_same_server(watermark)
    clock.shift(-2 * HOUR)
    with with_environment(**clock.env, TZ="Europe/Berlin"):
        servers.stack.restart_mysql("mysql-clock")
    with pytest.raises(ServerRestartedError, match="clock was set back"):
        source.check_same_server(watermark)
    clock.shift(0)


HOLDER = """
import sys, time
from pathlib import Path
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import CdcError
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
folder, owner, seconds = sys.argv[1:]
control = Control(IcebergControlStore(Lake("lake", {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/data"})), "shop")
try:
    control.acquire(owner, 20)
    print("held", flush=True)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        time.sleep(1)
        control.renew(owner, 20)
    print("kept", flush=True)
except CdcError as error:
    print(type(error).__name__, error, flush=True)
"""


def in_a_process(folder: Path, owner: str, seconds: int, clock: Clock | None = None) -> subprocess.Popen[str]:
    """A worker that holds the lease for so long."""
    env = {**os.environ, **(clock.env if clock else {}), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", HOLDER, str(folder), owner, str(seconds)]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("hours", [5, -5])
def test_inv_46_a_worker_whose_clock_jumps_takes_no_lease_and_loses_none(
    clock: Clock, tmp_path: Path, hours: int
) -> None:
    (tmp_path / "data").mkdir()
    clock.shift(0)
    holder = in_a_process(tmp_path, "holder", 12, clock)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    clock.shift(hours * HOUR)  # of the holder, and of the one that wants it
    taker = in_a_process(tmp_path, "taker", 1, clock)
    assert (taker.communicate(timeout=60)[0] or "").startswith("LeaseHeldError"), "a live lease was taken"
    assert holder.communicate(timeout=60)[0] == "kept\n"
    clock.shift(0)
