"""A standby takes over. A slot that was kept in step goes on there; one that was not yet ready is gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import stack
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.core.position import Availability
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from airflow_cdc.sources.postgres.snapshot import create_slot
from stack.ports import free_port
from stack.postgres import PostgresServer, PostgresSettings, hang_up, restart_postgres, start_postgres, wait_ready
from stack.process import end, wait_until
from tests.integration.postgres.support import connector_config, endpoint
from tests.integration.postgres.test_debezium import KEYED, events_of
from tests.integration.postgres.test_problems import code
from tests.unit.sources.postgres.pg_scene import TABLES

pytestmark = pytest.mark.slow

COMMIT = "SELECT pg_logical_emit_message(true, 't', 'x')"
READY = (
    "SELECT synced AND NOT temporary AND invalidation_reason IS NULL FROM pg_replication_slots WHERE slot_name = '{}'"
)


@dataclass(slots=True)
class Pair:
    """A primary, and a standby that keeps its slots in step (PostgreSQL 17 and later)."""

    primary: PostgresServer
    standby: PostgresServer

    def source(self, server: PostgresServer, slot: str, publication: str = "shop") -> PostgresSource:
        return PostgresSource(replace(endpoint(server), slot=slot, publication=publication))

    def keep_in_step(self, slot: str) -> Lsn:
        """Move the slot on until the standby's copy of it would outlive a promotion; where it stands then."""

        def ready() -> bool:
            self.primary.execute(COMMIT, f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
            return self.standby.execute(READY.format(slot)) == [(True,)]

        wait_until(lambda: ready() or None, timeout=120, what=f"the standby to have {slot}", interval=0.5)
        facts = self.source(self.primary, slot).facts()
        assert facts.slot is not None
        assert facts.slot.confirmed is not None
        return facts.slot.confirmed

    def promote(self) -> None:
        hang_up(self.primary)
        end(self.primary.child)
        self.standby.execute("SELECT pg_promote()")
        recovering = "SELECT pg_is_in_recovery()"
        wait_until(lambda: self.standby.execute(recovering) == [(False,)] or None, timeout=30, what="the promotion")


@pytest.fixture
def series(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "18"))


@pytest.fixture
def pair(tmp_path: Path, series: str) -> Iterator[Pair]:
    first = wait_ready(start_postgres(tmp_path, tmp_path, PostgresSettings(name="primary", series=series)))
    first.execute(
        *(f"CREATE TABLE {table} (id int PRIMARY KEY)" for table in TABLES),
        f"CREATE PUBLICATION shop FOR TABLE {', '.join(TABLES)}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO cdc",
        "SELECT pg_create_physical_replication_slot('to_standby')",
    )
    hang_up(first)
    end(first.child)
    second = copy_of(first, tmp_path / "standby")  # while the first is stopped
    pair = Pair(restart_postgres(first), restart_postgres(second))
    yield pair
    for server in (pair.primary, pair.standby):
        hang_up(server)
        end(server.child)


def copy_of(stopped: PostgresServer, folder: Path) -> PostgresServer:
    """A standby with the files of a server that is stopped."""
    port, data = free_port(), folder / "data"
    shutil.copytree(Path(stopped.folder) / "data", data)
    for slot in (data / "pg_replslot").iterdir():
        shutil.rmtree(slot)
    (data / "standby.signal").touch()
    login = f"host={stopped.host} port={stopped.port} user={stopped.user} password={stopped.password} dbname=postgres"
    settings = {
        "port": port,
        "primary_conninfo": f"'{login}'",
        "primary_slot_name": "'to_standby'",
        "hot_standby_feedback": "on",
        "sync_replication_slots": "on",
    }
    with (data / "postgresql.conf").open("a") as config:
        config.writelines(f"{name} = {value}\n" for name, value in settings.items())
    child = replace(stopped.child, name="standby", log=str(folder / "standby.log"))
    own = replace(stopped.settings, name="standby")
    return replace(stopped, port=port, folder=str(folder), settings=own, child=child)


def test_a_slot_that_was_kept_in_step_goes_on_at_the_promoted_standby(pair: Pair) -> None:
    before = pair.source(pair.primary, "shop")
    create_slot(before.endpoint, "shop", failover=True).close()
    stored, name = pair.keep_in_step("shop"), before.facts().log.name
    pair.promote()
    after = pair.source(pair.standby, "shop")
    facts = after.facts()
    assert (facts.log.name == name, facts.log.timeline) == (False, 2)
    assert facts.slot is not None
    assert facts.slot.synced
    assert after.availability(PgPosition(stored)).state is Availability.AVAILABLE
    assert code(after, stored, read_from=name) == "HEALTHY"
    assert code(after, stored, state="RUNNING", read_from=name) == "HEALTHY"


def test_a_slot_that_was_not_ready_yet_is_gone_with_the_primary(pair: Pair) -> None:
    """It was made for failover; but the standby's copy is temporary until the primary's slot has moved on."""
    before = pair.source(pair.primary, "late")
    create_slot(before.endpoint, "late", failover=True).close()
    facts = before.facts()
    assert facts.slot is not None
    assert facts.slot.confirmed is not None
    stored, name = facts.slot.confirmed, facts.log.name
    pair.promote()
    after = pair.source(pair.standby, "late")
    assert code(after, stored, read_from=name) == "SLOT_MISSING"
    assert after.availability(PgPosition(stored)).state is Availability.LOST


def test_a_standby_tells_how_far_it_is_behind_and_a_primary_has_nothing_to_tell(pair: Pair) -> None:
    """A primary that rests leaves its standby up to date, however long ago the last transaction was."""
    limits = ThrottlePolicy(replica_lag=30)
    first, second = pair.source(pair.primary, "shop"), pair.source(pair.standby, "shop")
    assert (first.load(limits).lag_s, first.load(limits).lag_unknown) == (None, "")
    pair.primary.execute(COMMIT)
    wait_until(lambda: second.load(limits).lag_s == 0.0 or None, timeout=60, what="the standby to be up to date")
    pair.standby.execute("SELECT pg_wal_replay_pause()")
    pair.primary.execute(COMMIT)
    behind = wait_until(lambda: second.load(limits).lag_s or None, timeout=60, what="the standby to be behind")
    assert 0 < behind < 60
    pair.standby.execute("SELECT pg_wal_replay_resume()")
    wait_until(lambda: second.load(limits).lag_s == 0.0 or None, timeout=60, what="the standby to be up to date again")


@pytest.mark.parametrize("series", ["17", "18"], indirect=True)
def test_a_connector_goes_on_at_the_promoted_standby_and_sends_every_row_once(
    pair: Pair, running: stack.Stack, series: str
) -> None:
    """Its own failover slot; rows are written before, after, and at the standby before the connector is led there."""
    assert running.connect is not None
    assert running.kafka is not None
    name = f"follows{series}"
    first, second = pair.primary, pair.standby
    first.execute(
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO debezium",
        f"CREATE PUBLICATION {name} FOR TABLE {', '.join(TABLES)}",
    )
    connector = DebeziumConnector(ConnectEndpoint(running.connect.url), PostgresCodec())
    own = {"slot.failover": "true", "snapshot.mode": "no_data", "provide.transaction.metadata": "false"}
    connector.create(name, connector_config(first, name, "postgres", (KEYED,)) | own)
    before, written = pair.source(first, name, name), iter(range(1, 1_000_000))
    slot_there = lambda: ((slot := before.facts().slot) is not None and slot.active) or None  # noqa: E731
    wait_until(slot_there, timeout=90, what="the slot")
    insert = f"INSERT INTO {KEYED} VALUES ({{}})"

    def ready() -> bool | None:
        first.execute(insert.format(next(written)), "CHECKPOINT")
        return second.execute(READY.format(name)) == [(True,)] or None

    wait_until(ready, timeout=120, what=f"the standby to have {name}", interval=0.5)
    first.execute(*(insert.format(next(written)) for _ in range(3)))
    last = next(written)
    first.execute(insert.format(last))
    # what the standby has not received by its promotion is lost to everybody
    received = f"SELECT count(*) FROM {KEYED} WHERE id = {last}"
    wait_until(lambda: second.execute(received) == [(1,)] or None, timeout=30, what="the standby to have all rows")
    old = before.facts().log.name
    pair.promote()
    second.execute(*(insert.format(next(written)) for _ in range(3)))
    connector.stop(name)
    connector.put_config(name, connector_config(second, name, "postgres", (KEYED,)) | own)
    connector.resume(name)
    last = next(written)
    second.execute(insert.format(last))
    sent = wait_until(lambda: all_up_to(running, f"{name}.{KEYED}", last), timeout=90, what=f"the row {last}")
    assert sent == list(range(1, last + 1)), "each row once, in order"
    after = pair.source(second, name, name)
    facts = after.facts_for((KEYED,), None)
    assert facts.slot is not None
    assert facts.slot.synced
    assert facts.log.timeline == 2
    stored = wait_until(lambda: connector.facts(name).offset, timeout=30, what="an offset")
    assert code(after, Lsn(int(str(stored.raw["lsn"]))), state="RUNNING", read_from=old) == "HEALTHY"
    connector.delete(name)


def all_up_to(running: stack.Stack, topic: str, last: int) -> list[int] | None:
    """The keys of all rows in the topic, as soon as the last one is among them."""
    ids = [event["after"]["id"] for event in events_of(running, topic, 0)]
    return ids if last in ids else None
