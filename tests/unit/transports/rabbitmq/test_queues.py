"""RabbitMQ's queues as the management interface describes them, its rows of the diagnosis, and its connection, without a server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.error_texts import match
from airflow_cdc.core.errors import ConfigError, TransportError
from airflow_cdc.core.observation import TransportFacts
from airflow_cdc.core.pipeline import NO_SINK
from airflow_cdc.core.problem import Evidence
from airflow_cdc.core.topics import TopicState
from airflow_cdc.hooks.rabbitmq import CdcRabbitMqHook
from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.forward import overlap_of
from airflow_cdc.transports.rabbitmq.kind import RabbitMqSettings
from airflow_cdc.transports.rabbitmq.management import Management
from airflow_cdc.transports.rabbitmq.problems import RULES
from airflow_cdc.transports.rabbitmq.queue import Binding, bindings_of, queue_of
from tests.unit.builders import PIPELINE, seen
from tests.unit.http_server import Answer, serving

STREAM = {"name": "q", "type": "stream", "arguments": {"x-queue-type": "stream", "x-max-age": "7D"}, "messages": 3}


def test_arguments_win_over_a_policy_and_age_is_in_milliseconds() -> None:
    queue = queue_of({**STREAM, "effective_policy_definition": {"max-age": "1h", "max-length-bytes": 5000}}, ())
    assert queue.is_stream
    assert queue.config["retention.ms"] == str(7 * 86_400_000)
    assert queue.config["retention.bytes"] == "5000"
    assert queue.messages == 3


@pytest.mark.parametrize(
    ("age", "milliseconds"),
    [("1Y", 31_536_000_000), ("2M", 5_184_000_000), ("3h", 10_800_000), ("4m", 240_000), ("x", -1)],
)
def test_every_unit_of_an_age(age: str, milliseconds: int) -> None:
    assert queue_of({"name": "q", "arguments": {"x-max-age": age}}, ()).config["retention.ms"] == str(milliseconds)


def test_a_queue_that_was_not_counted_yet_is_not_empty() -> None:
    assert queue_of({"name": "q", "arguments": {}}, ()).messages is None


def test_bindings_survive_the_stored_observation() -> None:
    bindings = (Binding("", "q", "direct"), Binding("x", 'odd "key", ', "topic"))
    config = json.loads(json.dumps(queue_of(STREAM, bindings).config))
    assert bindings_of(TransportFacts({}, {}, {"q": config, "other": {}})) == {"q": bindings}


def held(rank: int, kind: str, *, there: bool = True, sink: bool = True, consumers: int = 0) -> Evidence | None:
    queue = queue_of({"name": "q", "type": kind, "consumers": consumers}, ())
    parts: dict[int, tuple[int, int]] = {0: (0, 1)} if queue.is_stream else {}
    topics = TransportFacts(
        {"q": TopicState("q", "", parts)} if there else {}, {"shop.orders": "q"}, {"q": queue.config} if there else {}
    )
    pipeline = PIPELINE if sink else replace(PIPELINE, sink=NO_SINK)
    case = RULES.case(seen(transport=topics, pipeline=pipeline))
    return next(row for row in RULES.problems if row.rank == rank).holds(case)


def test_a_queue_that_does_not_exist() -> None:
    assert held(51, "stream") is None
    assert "dropped" in (held(51, "stream", there=False) or {})["q"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_sink_needs_a_queue_that_can_be_read_again(kind: str) -> None:
    assert held(58, "stream", consumers=3) is None
    assert held(58, kind, sink=False) is None
    assert "consumers" not in (held(58, kind) or {})["q"]
    assert (held(58, kind, consumers=2) or {})["q"].startswith(f"a {kind} queue: ")
    assert "2 consumers take them away" in (held(58, kind, consumers=2) or {})["q"]


@pytest.mark.parametrize(
    ("kind", "why"), [("stream", ""), ("quorum", "q is a quorum queue: only the events of a stream")]
)
def test_no_strategy_reads_what_cannot_be_read_again(kind: str, why: str) -> None:
    topics = TransportFacts({}, {}, {"q": queue_of({"name": "q", "type": kind}, ()).config})
    case = RULES.case(seen(transport=topics))
    told = {blocker(case) for strategy in RULES.blockers for blocker in RULES.blockers[strategy]}
    assert all(text.startswith(why) and bool(text) == bool(why) for text in told)
    assert "restart" not in RULES.blockers


def test_apply_refuses_events_without_offsets() -> None:
    TopicState("q", "", {0: (0, 0)}).check_offsets("table t")
    with pytest.raises(TransportError, match="have no offsets"):
        TopicState("q", "", {}).check_offsets("table t")


def test_one_queue_is_read_for_the_connector_s_own() -> None:
    endpoint = RabbitMqEndpoint("rabbit", password="hush")
    assert RabbitMqTransport(endpoint).queue_of("shop") == "shop"
    settings = RabbitMqSettings("rabbitmq", "r", "shop.stream")
    assert RabbitMqTransport(settings.at(endpoint)).queue_of("shop") == "shop.stream"
    assert "hush" not in repr(endpoint) + endpoint.where


def test_a_virtual_host_where_the_user_may_nothing_is_no_empty_one() -> None:
    with serving() as script:
        script.answers = [Answer(404, {}), Answer(200, [{"name": "/"}]), Answer(404, {}), Answer(200, [])]
        management = Management(RabbitMqEndpoint("rabbit", password="hush", management=script.url))
        assert management.queue("q") is None
        with pytest.raises(TransportError, match=r"guest may see nothing in virtual host /.*Give the user"):
            management.queue("q")


def test_calls_are_limited() -> None:
    endpoint = RabbitMqEndpoint("rabbit")
    assert endpoint.limited(CallLimits()).timeout == 15
    assert endpoint.limited(CallLimits.waited_for(3)).timeout == 3
    assert (endpoint.api, replace(endpoint, tls=True).api) == ("http://rabbit:15672", "https://rabbit:15671")


def test_what_the_server_says_to_a_connector_is_known() -> None:
    text = "channel error; reply-code=404, reply-text=NOT_FOUND - no exchange 'canal' in vhost '/'"
    assert getattr(match(RULES.texts, text), "code", "") == "TRANSPORT_MISCONFIGURED"
    text = "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/'"
    assert getattr(match(RULES.texts, text), "code", "") == "TRANSPORT_MISCONFIGURED"


def hook(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> CdcRabbitMqHook:
    monkeypatch.setenv("AIRFLOW_CONN_R", json.dumps({"conn_type": "cdc_rabbitmq", **fields}))
    return CdcRabbitMqHook("r")


def test_a_connection_becomes_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = hook(monkeypatch, host="rabbit", login="u", password="p").endpoint()
    assert (plain.port, plain.vhost, plain.tls, plain.api) == (5672, "/", False, "http://rabbit:15672")
    extra = {"tls": "true", "ca_file": "/ca.pem", "management": "https://rabbit:1/"}
    tls = hook(monkeypatch, host="rabbit", schema="shop", login="u", password="p", extra=extra).endpoint()
    assert (tls.port, tls.vhost, tls.ca_file, tls.api) == (5671, "shop", "/ca.pem", "https://rabbit:1")
    url = hook(monkeypatch, host="amqps://rabbit/", login="u", password="p", extra={"verify": "false"}).endpoint()
    assert (url.host, url.port, url.tls, url.verify, url.api) == ("rabbit", 5671, True, False, "https://rabbit:15671")
    six = hook(monkeypatch, host="::1", login="u", password="p").endpoint()
    assert (six.host, six.port) == ("::1", 5672)
    for host in ("amqps://u:hush@rabbit", "amqp://rabbit/shop", "http://rabbit", "rabbit:5671", "amqps://"):
        with pytest.raises(ConfigError, match="host is not a server's name") as caught:
            hook(monkeypatch, host=host, login="u").endpoint()
        assert "hush" not in str(caught.value)
    with pytest.raises(ConfigError, match="login is empty"):
        hook(monkeypatch, host="rabbit").endpoint()


def moved(rank: int, value: dict[str, Any], *, dead: dict[str, int] | None = None) -> Evidence | None:
    """The evidence of a row for a queue whose messages are moved to a stream."""
    queue = queue_of({"name": "shop", "type": "classic", **value}, (), dead).moved_to(queue_of(STREAM, ()))
    config = json.loads(json.dumps(queue.config))
    topics = TransportFacts({"q": TopicState("q", "", {0: (0, 1)})}, {"shop.orders": "q"}, {"q": config})
    case = RULES.case(seen(transport=topics))
    assert not any(blocker(case) for strategy in RULES.blockers for blocker in RULES.blockers[strategy])
    return next(row for row in RULES.problems if row.rank == rank).holds(case)


def test_a_queue_whose_messages_are_moved_is_read_as_its_stream() -> None:
    assert (moved(51, {}), moved(58, {}), moved(59, {}), moved(76, {})) == (None, None, None, None)


def test_messages_that_leave_the_queue_by_another_way() -> None:
    own = {"consumer_tag": "airflow-provider-cdc.1"}
    assert moved(59, {"consumers": 1, "consumer_details": [own]}) is None
    told = moved(59, {"consumers": 2, "consumer_details": [own, {"consumer_tag": "ctag"}]}) or {}
    assert told["queue shop"].startswith("1 other consumers take messages away")
    assert moved(59, {}, dead={"dlq": 0}) is None
    assert "put 3 messages in queue dlq" in (moved(59, {}, dead={"dlq": 3}) or {})["queue shop"]


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        ("classic", {"x-message-ttl": 5000}, "message-ttl 5000: older messages are removed"),
        ("classic", {"x-expires": 5000}, "expires 5000"),
        ("classic", {"x-max-length": 10}, "max-length 10 with overflow drop-head"),
        ("classic", {"x-max-length-bytes": 10, "x-overflow": "reject-publish"}, "new messages are rejected"),
        ("classic", {"x-max-priority": 5}, "messages overtake others"),
        ("quorum", {}, "delivery-limit 20"),
        ("quorum", {"x-delivery-limit": 3}, "delivery-limit 3"),
        ("quorum", {"x-delivery-limit": -1}, ""),
        ("classic", {"x-delivery-limit": 3}, ""),
    ],
)
def test_how_a_queue_can_lose_messages(kind: str, arguments: dict[str, Any], text: str) -> None:
    told = moved(76, {"type": kind, "arguments": arguments})
    assert text in (told or {}).get("queue shop", "")
    assert bool(told) == bool(text)


def test_a_stream_is_not_the_queue_itself() -> None:
    with pytest.raises(ConfigError, match="names the queue itself"):
        RabbitMqSettings("rabbitmq", "r", "shop", "shop")
    settings = RabbitMqSettings("rabbitmq", "r", "shop", "shop.cdc")
    assert RabbitMqTransport(settings.at(RabbitMqEndpoint("rabbit"))).queue_of("shop") == "shop.cdc"


@pytest.mark.parametrize(
    ("tail", "again", "whole", "overlap"),
    [
        ("abcdef", "ef", False, "ef"),
        ("abcdef", "efgh", False, "ef"),  # g and h were taken, and not published
        ("abcdef", "gh", True, ""),
        ("", "ab", True, ""),
        ("abcdef", "cde", True, "cdef"),  # f is delivered with the next batch
        ("abcdef", "cde", False, None),  # f was acknowledged and e was not
        ("abcdef", "bd", True, None),
        ("abcabc", "abc", False, "abc"),
        ("aa", "aa", False, "aa"),
        ("ab", "a", False, None),
    ],
)
def test_messages_that_come_again_are_the_end_of_the_stream_or_nothing(
    tail: str, again: str, whole: bool, overlap: str | None
) -> None:
    told = overlap_of([c.encode() for c in tail], [c.encode() for c in again], whole=whole)
    assert told is None if overlap is None else told is not None and b"".join(told).decode() == overlap
