"""A run in the middle of a recovery whose systems are autospec'd: what a step did to them, and in which order."""

from __future__ import annotations

from typing import Any

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.control.control import Control
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.table import Table
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import read_position
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.unit.builders import PIPELINE, UUID, WATERMARK
from tests.unit.stand_ins import stand_in

ORDERS = Table("shop", "orders", (), ())
NAME = "shop.orders"
KEY = {"server": "shop"}
LOST = {"file": "mysql-bin.000002", "pos": 4, "gtids": f"{UUID}:1-10", "ts_sec": 1}
DEBEZIUM = {"topic.prefix": "shop", "connector.class": "io.debezium.connector.mysql.MySqlConnector"}
READ = OpenRecovery(
    "r",
    epoch=4,
    tables=(NAME,),
    strategy="full_snapshot",
    watermark=WATERMARK,
    definitions={NAME: ORDERS.fingerprint},
)


def recovering(recovery: OpenRecovery = READ) -> Run:
    """A run of PIPELINE whose connector is STOPPED at LOST; the recovery changes as the steps change it.

    One at a time: a second call takes the systems of the first.
    """
    clients: Any = Parts(*(stand_in(kind) for kind in (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)))
    clients.sink.staging = clients.sink.letters = clients.sink
    states = [recovery]

    def change(_run_id: str, transition: Any, _read: Any) -> OpenRecovery:
        states.append(transition(states[-1]))
        return states[-1]

    clients.control.recovery.side_effect = lambda _read: states[-1]
    clients.control.change_recovery.side_effect = change
    clients.source.definitions.side_effect = lambda names: dict.fromkeys(names, ORDERS)
    clients.connector.codec = MySqlCodec()
    clients.connector.raw_config.return_value = DEBEZIUM
    clients.connector.entries.return_value = [OffsetEntry(KEY, LOST)]
    clients.connector.committed_offset.return_value = LOST
    clients.connector.state.return_value.state = "STOPPED"
    clients.transport.gathered.return_value = {}
    return Run(PIPELINE, clients, "r", "/reports")


def now(run: Run) -> OpenRecovery:
    """The open recovery as the steps have left it."""
    recovery = run.clients.control.recovery(read_position)
    assert recovery is not None
    return recovery
