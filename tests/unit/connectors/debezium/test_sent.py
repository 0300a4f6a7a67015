"""Of which transactions the last events in a connector's topics are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import create_autospec

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.connector import OwnTopics
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.sent import MOST_TOPICS, last_sent
from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.observation import ConnectorFacts, TaskState
from airflow_cdc.core.ports import Transport
from airflow_cdc.core.topics import TopicState
from tests.contract.test_wires import schemas
from tests.wires import names, payload, recording

CAPTURE = ConnectorSettings.from_config(
    {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "topic.prefix": "shop",
        "schema.history.internal.kafka.topic": "shop.history",
    }
)


class Kept(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def event(gtid: str | None, *, wrapped: bool = False) -> bytes:
    body: dict[str, Any] = {"op": "c", "source": {"gtid": gtid}}
    return json.dumps({"payload": body} if wrapped else body).encode()


def topics_of(contents: dict[str, list[list[bytes | None]]]) -> Any:
    """A transport with these topics: each a list of partitions, each a list of values."""
    topics: Any = create_autospec(Transport, instance=True)
    topics.topic_names.return_value = [*contents, "other.shop.t", "shopping.t"]
    topics.topic_states.side_effect = lambda names: {
        name: TopicState(name, "id", {p: (0, len(values)) for p, values in enumerate(contents[name])}) for name in names
    }
    topics.records.side_effect = lambda name, ranges: [
        Kept(p, at, b"k", contents[name][p][at]) for p, (first, end) in ranges.items() for at in range(first, end)
    ]
    return topics


CONTENTS: dict[str, list[list[bytes | None]]] = {
    "shop": [[event("0-1-9")]],  # a DDL
    "shop.shop.t": [[event("0-1-1"), event("0-1-8", wrapped=True), None], [], [event("0-1-2"), b"not JSON", b"[1]"]],
    "shop.history": [[event("0-1-99")]],
}


def test_the_newest_records_of_each_partition_name_them() -> None:
    assert last_sent(CAPTURE, topics_of(CONTENTS)) == ("0-1-8", "0-1-9")


FORMS = [name for name in names("mysql-") if name.startswith(("mysql-json", "mysql-avro", "mysql-protobuf"))]
FORMS += ["mysql-flat-fields", "mysql-flat-nulls", "mysql-flat-headers", "mysql-flat-avro", "mysql-flat-protobuf"]


@pytest.mark.parametrize("name", FORMS)
def test_every_format_names_the_same_transactions_of_one_database(name: str) -> None:
    """Real connectors followed it. A flattened event keeps a GTID in a field, or in a header, if it was told to."""
    form, plain = recording(name), recording("mysql-json").records["t"][-2:]
    expected = {payload(one.value)["source"]["gtid"] for one in plain}
    settings = ConnectorSettings.from_config({**form.settings, "topic.prefix": "p"})
    topics: Any = create_autospec(Transport, instance=True)
    topics.topic_names.return_value = ["p.wires.t"]
    topics.topic_states.return_value = {"p.wires.t": TopicState("p.wires.t", "id", {0: (0, 2)})}
    topics.records.return_value = form.records["t"][-2:]
    asked: list[Any] = []

    def texts(ids: Any) -> Any:
        asked.extend(ids)
        return {one: text for one, text in schemas(name).items() if one in ids}

    # what a connector on a worker was recorded from is a database like it, of a server of its own
    same = (lambda gtid: gtid.rpartition(":")[2]) if name.endswith("-worker") else str
    assert {*map(same, last_sent(settings, topics, texts))} == {*map(same, expected)}
    assert bool(asked) == settings.needs_registry
    assert last_sent(settings, topics) == (() if settings.needs_registry else tuple(sorted(expected)))


def test_too_many_topics_are_not_looked_into() -> None:
    topics = topics_of({f"shop.t{n}": [[event("0-1-1")]] for n in range(MOST_TOPICS + 1)})
    assert last_sent(CAPTURE, topics) == ()
    topics.records.assert_not_called()


INSIDE = {"file": "maria-bin.000001", "pos": 4, "gtids": "0-1-8", "event": 2, "row": 1}


def facts(state: str, task: str, offset: dict[str, Any]) -> ConnectorFacts:
    read = MySqlCodec().read(offset, {})
    return ConnectorFacts(state, (TaskState(0, task),), {}, read, {}, 1, capture=CAPTURE)


@pytest.mark.parametrize(
    ("state", "task", "offset", "looked"),
    [
        ("RUNNING", "FAILED", INSIDE, True),
        ("STOPPED", "RUNNING", INSIDE, True),
        ("RUNNING", "RUNNING", INSIDE, False),
        ("RUNNING", "FAILED", {**INSIDE, "event": 0, "row": 0}, False),
    ],
)
def test_they_are_looked_for_only_at_rest_and_inside_a_transaction(
    state: str, task: str, offset: dict[str, Any], looked: bool
) -> None:
    topics = topics_of(CONTENTS)
    with_elsewhere = OwnTopics().with_elsewhere("shop", facts(state, task, offset), topics)
    assert (with_elsewhere.sent != ()) is looked
    assert topics.topic_names.called is looked


def test_a_broker_that_does_not_answer_hides_nothing_of_the_connector() -> None:
    topics = topics_of(CONTENTS)
    topics.topic_names.side_effect = TransportError("no broker")
    known = facts("STOPPED", "FAILED", INSIDE)
    assert OwnTopics().with_elsewhere("shop", known, topics) == replace(known, sent=())
