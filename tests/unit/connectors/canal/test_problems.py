"""Canal's rows of the diagnosis, over made facts: those that the tests on real servers do not make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.canal.capture import AUTO_RESET, DESTINATION, START_FILE, CanalCapture, kept_elsewhere
from airflow_cdc.connectors.canal.connector import CanalFacts
from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.canal.problems import RULES
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.observation import SchemaFacts, TaskState, TransportFacts
from airflow_cdc.core.pipeline import NO_SINK
from airflow_cdc.core.problem import Evidence
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicState
from airflow_cdc.kinds import rules_for
from airflow_cdc.transports.rabbitmq.queue import Binding, Queue
from tests.unit.builders import PIPELINE, SOURCE, seen
from tests.unit.connectors.canal.settings import FOLLOWED
from tests.unit.connectors.canal.test_cursor import at, real
from tests.unit.tables import col

KAFKA = {"canal.serverMode": "kafka", "canal.mq.topic": "shop", DESTINATION: "shop"}
RABBIT = {
    **KAFKA,
    "canal.serverMode": "rabbitMQ",
    "rabbitmq.queue": "shop.canal",
    "rabbitmq.exchange": "canal",
    "rabbitmq.routingKey": "shop",
}

KEYED = Table("shop", "orders", (col("id", 1, "int", "int", nullable=False),), ("id",))


def facts(config: Mapping[str, str] = KAFKA, **more: Any) -> CanalFacts:
    """A destination that runs at the real cursor."""
    made = CanalFacts(
        "RUNNING",
        (TaskState(0, "RUNNING"),),
        config,
        CursorCodec().read(real(), {"server": "shop"}),
        {"server": "shop"},
        1,
        capture=CanalCapture.from_config(config),
    )
    return replace(made, **more)


def held(rank: int, connector: CanalFacts, **source: Any) -> Evidence | None:
    """What the row of this rank says."""
    case = RULES.case(seen(connector=connector, source=replace(SOURCE, **source)))
    return next(row for row in RULES.problems if row.rank == rank).holds(case)


def test_a_setting_that_cannot_be_followed() -> None:
    assert held(84, facts()) is None
    assert "transport.kind is kafka" in (held(84, facts(RABBIT)) or {})["canal.serverMode"]
    fault = ConfigError("canal.serverMode is 'tcp'")
    assert "canal.serverMode" in (held(84, facts(capture=None, capture_fault=fault)) or {})["refused"]


@pytest.mark.parametrize(
    ("spring", "cursor", "said"),
    [
        ("classpath:spring/memory-instance.xml", "file", "in memory alone"),
        ("classpath:spring/default-instance.xml", "file", "Write connector.cursor: zookeeper"),
        ("classpath:spring/file-instance.xml", "zookeeper", "Write connector.cursor: file"),
        ("classpath:spring/file-instance.xml", "file", ""),
        ("file:/etc/canal/own.xml", "file", ""),
        ("", "zookeeper", ""),
    ],
)
def test_inv_40_a_cursor_that_is_kept_elsewhere_is_not_taken_for_none(spring: str, cursor: str, said: str) -> None:
    config = {**KAFKA, **({"canal.instance.global.spring.xml": spring} if spring else {})}
    told = kept_elsewhere(config, cursor)
    assert said in told
    assert bool(told) == bool(said)
    unseen = facts(config, offset=None, key=None, offsets_count=0, offset_unseen=told)
    codes = {row.code for row in rules_for(PIPELINE).problems if row.holds(RULES.case(seen(connector=unseen)))}
    assert ("NEW_PIPELINE" in codes or "OFFSET_MISSING" in codes) is not bool(told)
    assert ("UNKNOWN" in codes) is bool(told)


def test_a_reset_to_the_end_is_a_problem_while_all_is_well() -> None:
    assert held(88, facts()) is None
    assert held(88, facts({**KAFKA, AUTO_RESET: "false"})) is None
    told = held(88, facts({**KAFKA, AUTO_RESET: " TRUE "}))
    assert told is not None
    assert "log's end" in told[AUTO_RESET]


def test_a_second_client_is_named_with_its_place() -> None:
    assert held(41, facts()) is None
    told = held(41, facts(other_keys=({"server": "shop", "client": 1002, "cursor": "mysql-bin.000001:4"},)))
    assert told is not None
    assert told["client 1002 is at"].startswith("mysql-bin.000001:4 ")


def test_a_cursor_of_another_address() -> None:
    assert held(46, facts()) is None
    told = held(46, facts(stranger="192.0.2.1:3306", address="db:3306"))
    assert told is not None
    assert told["cursor taken at"].startswith("192.0.2.1:3306 ")


def test_a_cursor_of_another_server_id() -> None:
    offset = CursorCodec().read(at(serverId=0), {})
    assert held(97, facts(offset=offset)) is None
    assert held(97, facts(), server_id=101) is None
    told = held(97, facts(), server_id=7)
    assert told is not None
    assert told["serverId in the cursor"].startswith("101: if its position is gone, after three refusals")


def test_a_server_that_does_not_know_show_master_status_needs_a_start() -> None:
    assert held(98, facts(), version="8.0.15") is None
    assert held(98, facts(), version="10.11.18-MariaDB") is None
    for version in ("9.7.4", "8.4.0"):
        assert "show master status" in (held(98, facts(), version=version) or {})["version"]
        assert held(98, facts({**KAFKA, START_FILE: "mysql-bin.000001"}), version=version) is None


def test_rows_that_cannot_be_taken_from_its_events_matter_where_there_is_a_sink() -> None:
    config = {**FOLLOWED, "canal.mq.topic": "shop"}
    for followed, without_sink, with_sink in (
        (config, False, False),
        ({**config, "canal.instance.gtidon": "false"}, False, True),
        ({**config, "canal.instance.filter.black.regex": r"shop\..*"}, True, True),
    ):
        capture = CanalCapture.from_config(followed)
        observations = [
            seen(
                connector=facts(followed, capture=capture),
                schema=SchemaFacts({"shop.orders": KEYED}),
                pipeline=pipeline,
            )
            for pipeline in (replace(PIPELINE, sink=NO_SINK), PIPELINE)
        ]
        row = next(row for row in RULES.problems if row.rank == 85)
        assert [row.holds(RULES.case(one)) is not None for one in observations] == [without_sink, with_sink]


def test_no_row_says_anything_of_another_connector() -> None:
    case = RULES.case(seen())
    assert [row.code for row in RULES.problems if row.holds(case) is not None] == []


def led(*bindings: Binding) -> Evidence | None:
    """What the row about messages without a way says, of a queue with these bindings."""
    queue = Queue("shop.canal", "stream", {}, 0, 0, bindings)
    topics = TransportFacts({"shop.canal": TopicState("shop.canal", "", {0: (0, 1)})}, {}, {"shop.canal": queue.config})
    case = RULES.case(seen(connector=facts(RABBIT), transport=topics, pipeline=PIPELINE))
    return next(row for row in RULES.problems if row.rank == 27).holds(case)


DEFAULT = Binding("", "shop.canal", "direct")


@pytest.mark.parametrize(
    "binding",
    [
        Binding("canal", "shop", "direct"),
        Binding("canal", "", "fanout"),
        Binding("canal", "sh*p.#", "topic"),  # not read here, so nothing is said
        Binding("canal", "", "headers"),
    ],
)
def test_a_queue_that_gets_what_canal_sends(binding: Binding) -> None:
    assert led(DEFAULT, binding) is None


@pytest.mark.parametrize(
    "bindings", [(), (DEFAULT,), (DEFAULT, Binding("canal", "Shop", "direct")), (Binding("other", "shop", "fanout"),)]
)
def test_what_canal_sends_reaches_no_queue(bindings: tuple[Binding, ...]) -> None:
    told = led(*bindings)
    assert told is not None
    assert told["canal.mq.topic"].startswith("shop, which is the routing key ")
    assert "queue shop.canal is bound to" in told


def test_the_queue_is_what_canal_declares_and_without_one_it_does_not_start() -> None:
    assert CanalCapture.from_config(RABBIT).topic == "shop.canal"
    with pytest.raises(ConfigError, match=r"rabbitmq\.queue is not set"):
        CanalCapture.from_config({**RABBIT, "rabbitmq.queue": ""}).topic_of("shop.t")
    assert CanalCapture.from_config({**KAFKA, "rabbitmq.queue": "other"}).topic == "shop"
