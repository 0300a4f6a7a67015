"""A connector that rests inside of a transaction which its offset lists as done: what a start from there loses.

Debezium stores such an offset after it lost its connection inside the transaction (INV 38). Here the keep-alive takes a
reader that waits for a full queue for a lost connection, the connector is stopped at that moment, and more is written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec, MySqlOffset
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.core.offset import Inside
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.test_connect_client import LARGE, ROUNDS, SLOW, Shop, config
from tests.marks import gtids_of

# kafka-python reads its own message schemas with a deprecated call
pytestmark = [
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
    pytest.mark.slow,
]
SMALL = 5


@pytest.fixture
def shop(mysql: MySqlServer, kafka: str, connect: str, databases: Callable[..., str]) -> Iterator[Shop]:
    """A slow connector over a large and a small table."""
    name = f"hs_{uuid.uuid4().hex[:6]}"
    source = MySqlSource(MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, mysql.cdc.password))
    with closing(DebeziumConnector(ConnectEndpoint(connect), MySqlCodec())) as client:
        transport = KafkaTransport(
            KafkaEndpoint(kafka, timeout=180.0)
        )  # a slow connector may send its events many times
        shop = Shop(client, transport, source, mysql, name, databases(), f"history-{name}")
        shop.execute(
            "CREATE TABLE large (id INT PRIMARY KEY, v VARCHAR(200))",
            "CREATE TABLE small (id INT PRIMARY KEY, n INT)",
            "INSERT INTO small VALUES (1, 0)",
            f"SET SESSION cte_max_recursion_depth = {LARGE}",
            f"INSERT INTO large WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {LARGE})"
            " SELECT i, REPEAT('x', 100) FROM n",
        )
        client.create(name, {**config(mysql, kafka, shop), "snapshot.mode": "no_data", **SLOW})
        try:
            client.wait_running(name)
            wait_until(shop.committed, timeout=60, what="the first offset")
            yield shop
        finally:
            client.delete(name)


def stopped_inside(shop: Shop) -> tuple[MySqlOffset, GtidSet]:
    """Stop the connector inside of a transaction that its offset lists as done: the offset, and that transaction."""
    for number in range(1, ROUNDS + 1):
        before = shop.source.position()
        shop.execute(f"UPDATE large SET v = REPEAT('{number}', 100)")
        mark = shop.source.position()
        if claimed(shop, mark):
            shop.connect.stop(shop.name)
            offset = shop.committed()
            if offset is not None and offset.in_transaction and not gtids_of(mark).issubset(gtids_of(before)):
                return offset, gtids_of(mark) - gtids_of(before)
            shop.connect.resume(shop.name)
        shop.connect.wait_running(shop.name)
    raise AssertionError(f"in {ROUNDS} rounds the connector was never stopped at such a moment")


def claimed(shop: Shop, mark: Watermark) -> bool:
    """Wait until the offset lists all up to `mark`; whether it was inside of a transaction then."""

    def lists() -> MySqlOffset | None:
        offset = shop.committed()
        return offset if offset and gtids_of(mark).issubset(offset.gtids or GtidSet()) else None

    return wait_until(
        lists, timeout=240, interval=0.03, what="an offset that lists the large transaction"
    ).in_transaction


def sent(shop: Shop, table: str) -> dict[str, set[tuple[str, int, int]]]:
    """GTID → the rows' places in the log, of all that is in a table's topic."""
    topic = f"{shop.name}.{shop.database}.{table}"
    state = shop.transport.topic_states([topic]).get(topic)
    places: dict[str, set[tuple[str, int, int]]] = {}
    for record in () if state is None else shop.transport.records(topic, state.partitions):
        if record.value:
            source = json.loads(record.value)["source"]
            places.setdefault(source["gtid"], set()).add((source["file"], source["pos"], source["row"]))
    return places


def at_the_end(shop: Shop) -> None:
    """Start the connector and wait until it has read all."""
    shop.connect.resume(shop.name)
    shop.connect.wait_running(shop.name)
    mark = shop.source.position()
    wait_until(lambda: claimed_past(shop, mark), timeout=240, interval=0.3, what="the connector reads all")


def claimed_past(shop: Shop, mark: Watermark) -> bool | None:
    offset = shop.committed()
    return (
        offset is not None and not offset.in_transaction and gtids_of(mark).issubset(offset.gtids or GtidSet())
    ) or None


def test_inv_38_a_connector_that_rests_inside_a_transaction_that_counts_as_done_is_known(shop: Shop) -> None:
    offset, transaction = stopped_inside(shop)
    for _ in range(SMALL):
        shop.execute("UPDATE small SET n = n + 1")
    stored = shop.connect.codec.read(offset.to_value(), {})
    assert stored.inside is Inside.TRANSACTION
    look = shop.source.facts_for((), stored.position).at_offset
    assert look is not None
    assert GtidSet.parse(look.transaction) == transaction

    # as the runbook says: the set without that transaction, and nothing to skip
    value = {key: text for key, text in offset.to_value().items() if key not in ("event", "row")}
    value["gtids"] = str((offset.gtids or GtidSet()) - transaction)
    shop.connect.offset_store(shop.name, {"server": shop.name}).write(value)
    at_the_end(shop)
    assert len(sent(shop, "large")[str(transaction)]) == LARGE
    assert len(sent(shop, "small")) == SMALL


def test_inv_38_what_a_start_from_there_loses(shop: Shop) -> None:
    """What the connector itself does, for as long as it does it: the row of the diagnosis can go when this fails."""
    _, transaction = stopped_inside(shop)
    for _ in range(SMALL):
        shop.execute("UPDATE small SET n = n + 1")
    at_the_end(shop)
    assert len(sent(shop, "large")[str(transaction)]) < LARGE
    assert len(sent(shop, "small")) < SMALL
