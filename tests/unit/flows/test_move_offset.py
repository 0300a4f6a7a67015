"""Moving a position by hand: judged by the live source, compared, written down, and undone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.connector import ConnectOffsetStore, DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec, moved
from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec, value_at
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import OffsetRejectedError, UnknownStateError, UsageError
from airflow_cdc.core.observation import (
    ConnectorState,
    ControlFacts,
    Observation,
    OpenFacts,
    Unknown,
)
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.flows import move_offset as move
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.unit.builders import GTID_OFFSET, HEALTHY, OTHER, PIPELINE, SOURCE, UUID, file_offset
from tests.unit.stand_ins import stand_in

WHO = "ann@desk"
LATER = {**GTID_OFFSET, "pos": 600, "gtids": f"{UUID}:1-90"}


class World:
    """A connector with one offset, and a control table, as the clients show them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset: dict[str, Any] | None = dict(GTID_OFFSET)
        self.state = "RUNNING"
        self.ledger: dict[str, Any] = {}
        self.leases: list[str] = []
        self.seen: Observation = HEALTHY
        kinds = (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)
        c: Any = Parts(*(stand_in(kind) for kind in kinds))
        c.connector.codec = MySqlCodec()
        c.connector.offset_store.side_effect = lambda name, key: ConnectOffsetStore(c.connector, name, key)
        c.connector.entries.side_effect = lambda _n: (OffsetEntry({"server": "shop"}, self.offset),)
        c.connector.committed_offset.side_effect = lambda _n, _s: self.offset
        c.connector.state.side_effect = lambda _n: ConnectorState(self.state)
        c.connector.stop.side_effect = lambda _n: setattr(self, "state", "STOPPED")
        c.connector.alter_offsets.side_effect = lambda _n, _p, value: setattr(self, "offset", value and dict(value))
        c.connector.raw_config.return_value = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "topic.prefix": "shop",
        }
        c.source.facts_for.return_value = SOURCE
        c.control.facts.return_value = ControlFacts(3)
        c.control.acquire.side_effect = lambda *_a, **_k: self.leases.append("acquired")
        c.control.release.side_effect = lambda *_a: self.leases.append("released")
        c.control.ledger_get.side_effect = lambda _r: dict(self.ledger)
        c.control.ledger_set.side_effect = lambda _r, key, value: self.ledger.__setitem__(key, value)
        self.clients = c
        self.run = Run(PIPELINE, c, "cli", "/reports")
        monkeypatch.setattr(move, "observe", lambda _run, watch: self.seen)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_move_is_written_read_back_and_written_down(world: World) -> None:
    done = move.move(world.run, LATER, who=WHO, shown=None)
    assert (done["before"], done["after"]) == (GTID_OFFSET, LATER)
    assert done["moves"] == f"skips {UUID}:81-90 (10 transactions)"
    assert world.offset == LATER
    assert world.state == "STOPPED"
    (entry,) = world.ledger["moves"]
    assert (entry["who"], entry["from"], entry["to"], entry["state"]) == (WHO, GTID_OFFSET, LATER, "done")
    assert world.leases == ["acquired", "released"]


def test_a_move_can_be_undone(world: World) -> None:
    move.move(world.run, LATER, who=WHO, shown=None)
    move.move(world.run, move.last_before(world.run), who=WHO, shown=LATER)
    assert world.offset == GTID_OFFSET


def test_there_is_nothing_to_undo_before_the_first_move(world: World) -> None:
    with pytest.raises(UsageError):
        move.last_before(world.run)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({**LATER, "gtids": f"{UUID}:1-40"}, "GTID_PURGED"),
        ({**LATER, "gtids": f"{UUID}:1-90,{OTHER}:1-3"}, "GTID_NOT_CONTAINED"),
        (file_offset("mysql-bin.000007"), "BINLOG_PURGED"),
        (file_offset("mysql-bin.000900"), "POSITION_AHEAD"),
        (file_offset("mysql-bin.000009", 1001), "POSITION_PAST_END"),
        (file_offset("mysql-bin.000009"), "GTID_MISSING_IN_OFFSET"),
    ],
)
def test_a_position_that_the_source_does_not_have_is_never_written(
    world: World, value: dict[str, Any], code: str
) -> None:
    with pytest.raises(OffsetRejectedError, match=code) as refused:
        move.move(world.run, value, who=WHO, shown=None)
    assert refused.value.reasons == (code,)
    assert world.offset == GTID_OFFSET
    assert world.ledger == {}
    assert world.leases == ["acquired", "released"]


def test_a_value_that_is_not_an_offset_is_never_written(world: World) -> None:
    with pytest.raises(OffsetRejectedError, match="file is missing"):
        move.move(world.run, {"pos": 4}, who=WHO, shown=None)
    assert world.offset == GTID_OFFSET


def test_a_value_that_the_connector_s_version_does_not_take_is_never_written(world: World) -> None:
    """Debezium 1.9 ends with a NullPointerException at a PostgreSQL offset without a time."""
    connector: Any = world.clients.connector
    connector.codec, before = PostgresCodec(), value_at(Lsn(5)) | {"ts_usec": 1}
    connector.raw_config.return_value = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.server.name": "shop",
    }
    world.offset = before
    with pytest.raises(OffsetRejectedError, match=r"Debezium 1\.x ends with a NullPointerException"):
        move.move(world.run, value_at(Lsn(9)), who=WHO, shown=None)
    assert (world.offset, world.ledger) == (before, {})


def test_without_the_source_nothing_is_judged_and_nothing_written(world: World) -> None:
    world.seen = replace(HEALTHY, transport=Unknown("down"))
    with pytest.raises(UnknownStateError):
        move.move(world.run, LATER, who=WHO, shown=None)
    assert world.offset == GTID_OFFSET


def test_an_offset_that_somebody_else_changed_is_left_alone(world: World) -> None:
    world.state = "STOPPED"
    with pytest.raises(OffsetRejectedError, match="somebody else changed"):
        move.move(world.run, LATER, who=WHO, shown={**GTID_OFFSET, "pos": 4})
    assert world.offset == GTID_OFFSET


def test_nothing_is_moved_while_a_recovery_is_open(world: World) -> None:
    world.clients.control.acquire.side_effect = lambda *_, admit, **__: admit(OpenFacts("r"))
    with pytest.raises(UsageError, match="a recovery is open"):
        move.move(world.run, LATER, who=WHO, shown=None)
    assert world.state == "RUNNING"


def test_only_the_newest_moves_are_kept(world: World) -> None:
    for n in range(25):
        move.move(world.run, {**LATER, "pos": 600 + n}, who=WHO, shown=world.offset)
    assert [entry["to"]["pos"] for entry in world.ledger["moves"]] == list(range(605, 625))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, LATER, "no offset before"),
        (LATER, GTID_OFFSET, f"repeats {UUID}:81-90 (10 transactions)"),
        (GTID_OFFSET, GTID_OFFSET, "the same transactions"),
        (file_offset("b.000001"), file_offset("b.000002"), "skips what lies between b.000001:500 and b.000002:500"),
        (file_offset("b.000002"), file_offset("b.000001"), "repeats what lies between b.000002:500 and b.000001:500"),
        (file_offset("b.000001"), file_offset("c.000001"), "cannot be compared"),
        (file_offset("b.000001"), file_offset("b.000001"), "the same position"),
    ],
)
def test_what_a_move_skips_or_repeats_is_said(before: dict[str, Any] | None, after: dict[str, Any], told: str) -> None:
    assert told in moved(before, after)
