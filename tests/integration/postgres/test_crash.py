"""A server that crashes in the middle of a recovery, with synchronous_commit = off: what W and what was read are worth then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import stack
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.errors import ServerCrashedError
from airflow_cdc.sources.postgres.position import postgres_position
from stack.postgres import PostgresServer, PostgresSettings
from stack.process import end, wait_until
from tests.integration.postgres.support import endpoint

# the writer of the log waits as long as it may: what is not flushed by a commit is lost with the server
LATE = {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "100MB", "fsync": "off"}


@dataclass(slots=True)
class Crashing:
    """A server of its own with one table."""

    servers: stack.Stack
    name: str

    @property
    def server(self) -> PostgresServer:
        return self.servers.postgres[self.name]

    @property
    def source(self) -> PostgresSource:
        return PostgresSource(endpoint(self.server, "postgres"))

    def write(self, n: int) -> None:
        self.server.execute(f"INSERT INTO public.t VALUES ({n})")

    def rows(self) -> list[int]:
        return [row[0] for row in self.server.execute("SELECT id FROM public.t ORDER BY id")]

    def crash(self) -> None:
        """As by a power cut: nothing that waits in memory is written."""
        os.kill(self.server.child.server_pid, signal.SIGQUIT)
        wait_until(lambda: not self.server.child.alive or None, timeout=30, what="the server to be gone")
        self.servers.restart_postgres(self.name)

    def crash_of_one_process(self) -> None:
        """The server ends all its sessions and recovers, without a new start."""
        started = "SELECT pg_postmaster_start_time()::text"
        before = self.server.execute(started)
        with self.server.connect() as victim:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
        wait_until(lambda: self._answers() or None, timeout=30, what="the server to answer again")
        assert self.server.execute(started) == before

    def _answers(self) -> bool:
        import psycopg

        try:
            self.server.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


@pytest.fixture
def crashing(servers: stack.Stack, series: str) -> Iterator[Crashing]:
    name = f"crashing-{len(servers.postgres)}"
    made = servers.add_postgres(PostgresSettings(name=name, series=series, extra=LATE))
    made.execute("CREATE TABLE public.t (id int PRIMARY KEY)", "CHECKPOINT")
    yield Crashing(servers, name)
    end(servers.postgres[name].child)


@pytest.fixture(params=[pytest.param("15", marks=pytest.mark.slow), "18"])
def series(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def end_of_log(crashing: Crashing) -> str:
    return str(crashing.server.execute("SELECT pg_current_wal_insert_lsn()")[0][0])


def is_within(watermark: Watermark, crashing: Crashing) -> bool:
    return postgres_position(watermark.position).lsn <= crashing.source.log_facts().lsn


def test_inv_09_a_crash_takes_rows_that_were_read_and_the_recovery_asks_for_a_new_w(crashing: Crashing) -> None:
    crashing.write(1)
    watermark = crashing.source.watermark()
    crashing.write(2)
    assert crashing.rows() == [1, 2]  # as a snapshot after W would read them
    crashing.crash()
    assert crashing.rows() == [1], "nothing was lost: the test does not make what it is about"
    assert is_within(watermark, crashing)
    with pytest.raises(ServerCrashedError, match="Clear the task fence_and_watermark"):
        crashing.source.check_same_server(watermark)
    crashing.source.check_same_server(crashing.source.watermark())


@pytest.mark.slow
def test_inv_09_a_crash_of_one_process_is_seen_although_the_server_was_not_started_again(crashing: Crashing) -> None:
    watermark = crashing.source.watermark()
    crashing.write(2)
    crashing.crash_of_one_process()
    with pytest.raises(ServerCrashedError):
        crashing.source.check_same_server(watermark)


@pytest.mark.slow
def test_what_was_read_before_the_check_outlives_a_crash_after_it(crashing: Crashing) -> None:
    """The check itself puts on disk what was read; so no crash can fall between the two."""
    watermark = crashing.source.watermark()
    crashing.write(2)
    crashing.source.check_same_server(watermark)
    crashing.crash()
    assert crashing.rows() == [2]


@pytest.mark.slow
def test_a_clean_restart_and_statistics_that_somebody_resets_are_no_crash(crashing: Crashing) -> None:
    watermark = crashing.source.watermark()
    crashing.write(2)
    crashing.servers.restart_postgres(crashing.name)
    crashing.server.execute("SELECT pg_stat_reset_shared('bgwriter')", "SELECT pg_stat_reset_shared('wal')")
    assert crashing.rows() == [2]
    crashing.source.check_same_server(watermark)
