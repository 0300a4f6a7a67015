"""The Connect client against a real HTTP server that misbehaves as workers and proxies do."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint, KafkaConnect
from airflow_cdc.connectors.kafka_connect.http import (
    ConnectorMissingError,
    ConnectStartingError,
    ConnectTooOldError,
    ConnectUnreachableError,
    RebalancingError,
)
from airflow_cdc.core.errors import ConfigError, ConnectorError, DeadlineError, OffsetRejectedError
from airflow_cdc.core.text import root_cause
from tests.unit.http_server import Answer, Scripted, serving

OK = Answer(200, {})
REBALANCE = Answer(409, {"error_code": 409, "message": "Cannot complete request because of a conflicting operation"})


def error(status: int, message: str) -> Answer:
    return Answer(status, {"error_code": status, "message": message})


def state(connector: str, *tasks: str, trace: str = "") -> dict[str, Any]:
    extra = {"trace": trace} if trace else {}
    return {
        "name": "shop",
        "connector": {"state": connector, "worker_id": "w"},
        "tasks": [{"id": n, "state": t, "worker_id": "w", **extra} for n, t in enumerate(tasks)],
    }


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving() as script:
        yield script


@pytest.fixture
def connect(server: Scripted) -> Iterator[DebeziumConnector]:
    client = DebeziumConnector(ConnectEndpoint(server.url, retry_for=3, timeout=2), MySqlCodec())
    yield client
    client.close()


def test_root(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [Answer(200, {"version": "4.3.1", "commit": "x", "kafka_cluster_id": "y"})]
    assert connect.root()["version"] == "4.3.1"


@pytest.mark.parametrize(
    "passing",
    [
        REBALANCE,
        error(409, "Cannot complete request momentarily due to stale configuration"),
        error(500, "Request cannot be completed because a rebalance is expected"),
        Answer(drop=True),
        Answer(200, {"offsets": []}, cut=True),
    ],
    ids=["rebalance", "stale configuration", "rebalance as a 500", "no answer", "half a body"],
)
def test_what_passes_by_itself_is_tried_again(server: Scripted, connect: DebeziumConnector, passing: Answer) -> None:
    server.answers = [passing, passing, Answer(200, {"offsets": []})]
    assert connect.offsets("shop") == []
    assert len(server.requests) == 3


def test_an_offset_that_was_removed_while_connect_answered_is_none(
    server: Scripted, connect: DebeziumConnector
) -> None:
    """The removal of a moment ago, as a slow worker lists it: the partition is still known, its offset is null."""
    kept = {"partition": {"server": "other"}, "offset": {"pos": 4}}
    server.answers = [Answer(200, {"offsets": [{"partition": {"server": "shop"}, "offset": None}, kept]})]
    assert connect.offsets("shop") == [kept]


def test_a_rebalance_without_end_is_an_error_in_time(server: Scripted) -> None:
    server.answers = [REBALANCE]
    client = KafkaConnect(ConnectEndpoint(server.url, retry_for=3))
    began = time.monotonic()
    with pytest.raises(RebalancingError) as caught:
        client.status("shop")
    assert time.monotonic() - began < 30
    assert len(server.requests) > 1
    assert caught.value.status == 409
    assert f"{server.url}, GET /connectors/shop/status" in str(caught.value)


def test_a_refused_connection_is_an_error_in_time() -> None:
    client = KafkaConnect(ConnectEndpoint("http://127.0.0.1:1", retry_for=0.5))
    began = time.monotonic()
    with pytest.raises(ConnectUnreachableError, match="Connect could not be reached") as caught:
        client.root()
    assert time.monotonic() - began < 5
    assert "http://127.0.0.1:1" in str(caught.value)


def test_a_worker_that_comes_back_is_waited_for(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [Answer(drop=True), Answer(drop=True), Answer(204)]
    connect.resume("shop")
    assert [(m, p) for m, p, _, _ in server.requests] == [("PUT", "/connectors/shop/resume")] * 3


def test_500_is_not_tried_again_and_says_what_connect_says(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [error(500, "Request timed out")]
    with pytest.raises(ConnectorError, match="HTTP 500: Request timed out") as caught:
        connect.resume("shop")
    assert len(server.requests) == 1
    assert caught.value.status == 500


@pytest.mark.parametrize("status", [200, 502])
def test_html_says_that_something_else_answers(server: Scripted, connect: DebeziumConnector, status: int) -> None:
    server.answers = [Answer(status, b"<html>Sign in</html>", "text/html; charset=utf-8")]
    with pytest.raises(ConnectorError, match="not JSON but text/html") as caught:
        connect.root()
    assert "proxy or a login page" in str(caught.value)
    assert caught.value.status == status
    assert len(server.requests) == 1


def test_json_of_the_wrong_shape_is_an_error(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [Answer(200, ["not", "an", "object"])]
    with pytest.raises(ConnectorError, match="expected a JSON object but got list"):
        connect.root()


def test_no_answer_in_time_is_an_error_and_not_tried_again(server: Scripted) -> None:
    waiting = threading.Event()
    server.answers = [Answer(200, {}, delay=waiting)]
    client = KafkaConnect(ConnectEndpoint(server.url, timeout=0.3))
    with pytest.raises(ConnectorError, match=r"no answer within 0\.3 s"):
        client.put_config("shop", {"a": "b"})
    waiting.set()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(404, "No status found for connector nope"), ConnectorMissingError),
        (error(404, "HTTP 404 Not Found"), ConnectTooOldError),
        (error(405, "HTTP 405 Method Not Allowed"), ConnectTooOldError),
    ],
)
def test_404_and_405_tell_a_missing_connector_from_an_old_connect(
    server: Scripted, connect: DebeziumConnector, answer: Answer, kind: type[Exception]
) -> None:
    server.respond = lambda _method, path, _body: Answer(200, {"version": "3.4.1"}) if path == "/" else answer
    with pytest.raises(kind):
        connect.status("nope")


def test_a_worker_that_is_starting_is_waited_for(server: Scripted, connect: DebeziumConnector) -> None:
    early = [error(404, "Not Found"), Answer(200, {"version": "4.3.1"})]
    server.answers = [*early, *early, Answer(200, state("RUNNING", "RUNNING"))]
    assert connect.status("shop")["connector"]["state"] == "RUNNING"
    assert [path for _, path, _, _ in server.requests] == ["/connectors/shop/status", "/"] * 2 + [
        "/connectors/shop/status"
    ]


def test_a_worker_that_serves_nothing_yet_is_waited_for(server: Scripted, connect: DebeziumConnector) -> None:
    nothing = error(404, "Not Found")
    server.answers = [nothing, nothing, Answer(200, state("RUNNING", "RUNNING"))]
    assert connect.status("shop")["connector"]["state"] == "RUNNING"


def test_a_worker_that_never_gets_to_know_its_requests_is_no_old_one(server: Scripted) -> None:
    server.respond = lambda _method, path, _body: (
        Answer(200, {"version": "4.3.1"}) if path == "/" else error(404, "Not Found")
    )
    with pytest.raises(ConnectStartingError, match="may still be starting"):
        KafkaConnect(ConnectEndpoint(server.url, retry_for=0.5)).status("shop")


def test_wrong_credentials(server: Scripted) -> None:
    server.answers = [error(401, "User cannot access the resource.")]
    client = KafkaConnect(ConnectEndpoint(server.url, "ops", "pa55word"))
    with pytest.raises(ConnectorError, match="Check login and password") as caught:
        client.root()
    assert "pa55word" not in str(caught.value)
    assert server.requests[0][3]["Authorization"].startswith("Basic ")


def test_stop_waits_until_no_task_is_left(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [
        Answer(204),
        Answer(200, state("RUNNING", "RUNNING")),
        Answer(200, state("STOPPED", "RUNNING")),
        Answer(200, state("STOPPED")),
    ]
    connect.stop("shop", timeout=10)
    assert [p for _, p, _, _ in server.requests] == ["/connectors/shop/stop"] + ["/connectors/shop/status"] * 3


def test_a_connector_that_does_not_stop_is_named_with_its_last_state(
    server: Scripted, connect: DebeziumConnector
) -> None:
    server.answers = [Answer(200, state("STOPPED", "RUNNING"))]
    with pytest.raises(DeadlineError, match=r"shop is STOPPED with zero tasks.*STOPPED with 1 tasks"):
        connect.wait_stopped("shop", timeout=0.3)


def test_wait_running_needs_a_task_and_tells_a_failure_at_once(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [Answer(200, state("RUNNING")), Answer(200, state("RUNNING", "RUNNING"))]
    connect.wait_running("shop", timeout=5)
    trace = "org.X: wrapper\n\tat y\nCaused by: io.debezium.DebeziumException: no longer available\n\tat z"
    server.answers = [Answer(200, state("RUNNING", "FAILED", trace=trace))]
    with pytest.raises(ConnectorError, match=r"task 0 of connector shop is FAILED.*no longer available"):
        connect.wait_running("shop", timeout=5)


def test_a_new_connector_has_no_status_at_first(server: Scripted, connect: DebeziumConnector) -> None:
    missing = error(404, "No status found for connector shop")
    made = Answer(200, {"name": "shop"})
    server.answers = [missing, made, Answer(200, state("RUNNING", "RUNNING"))]
    connect.wait_running("shop", timeout=5)
    server.answers = [missing, made, made, Answer(200, {"offsets": []})]
    seen = connect.facts("shop")
    assert (seen.state, seen.tasks) == ("UNASSIGNED", ())
    server.answers = [missing, error(404, "Connector shop not found")]
    with pytest.raises(ConnectorMissingError, match="Connector shop not found"):
        connect.facts("shop")


OFFSETS = {
    "offsets": [
        {"partition": {"server": "shop1"}, "offset": {"file": "b.000004", "pos": 198}},
        {"partition": {"server": "typo"}, "offset": {"file": "b.000001", "pos": 4}},
    ]
}


def test_committed_offset_is_that_of_the_server(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [Answer(200, OFFSETS)]
    assert connect.committed_offset("shop", "shop1") == {"file": "b.000004", "pos": 198}
    assert connect.committed_offset("shop", "other") is None


def test_alter_offsets_sends_one_partition_and_returns_the_message(
    server: Scripted, connect: DebeziumConnector
) -> None:
    server.answers = [Answer(200, {"message": "altered"})]
    assert connect.alter_offsets("a/b c", {"server": "s"}, {"file": "b.000009", "pos": 4}) == "altered"
    connect.alter_offsets("shop", {"server": "s"}, None)
    method, path, body, _ = server.requests[0]
    assert (method, path) == ("PATCH", "/connectors/a%2Fb%20c/offsets")
    assert body == {"offsets": [{"partition": {"server": "s"}, "offset": {"file": "b.000009", "pos": 4}}]}
    assert server.requests[1][2]["offsets"][0]["offset"] is None


def test_alter_offsets_400_is_a_rejection_that_says_to_stop(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [error(400, "Connectors must be in the STOPPED state before their offsets can be modified.")]
    with pytest.raises(OffsetRejectedError, match="stop it first") as caught:
        connect.alter_offsets("shop", {"server": "s"}, {"file": "b.000009", "pos": 4})
    assert "STOPPED state" in caught.value.reasons[0]
    assert pickle.loads(pickle.dumps(caught.value)).reasons == caught.value.reasons  # noqa: S301


def test_alter_offsets_404_and_409(server: Scripted) -> None:
    client = KafkaConnect(ConnectEndpoint(server.url, retry_for=0.3))
    server.answers = [error(404, "Connector shop not found")]
    with pytest.raises(ConnectorMissingError):
        client.alter_offsets("shop", {"server": "s"}, {})
    server.answers = [REBALANCE]
    with pytest.raises(RebalancingError):
        client.alter_offsets("shop", {"server": "s"}, {})


def test_delete_offsets(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [Answer(200, {"message": "reset"})]
    assert connect.delete_offsets("shop") == "reset"
    assert server.requests[0][:2] == ("DELETE", "/connectors/shop/offsets")


CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "shop1",
    "database.password": "hunter22",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
}


def test_facts_hold_no_secret(server: Scripted, connect: DebeziumConnector) -> None:
    answers = {
        "/connectors/shop/status": state("RUNNING", "FAILED", trace="Caused by: password=hunter22 is wrong"),
        "/connectors/shop/config": CONFIG,
        "/connectors/shop/offsets": OFFSETS,
    }
    server.respond = lambda _, path, __: Answer(200, answers[path])
    facts = connect.facts("shop")
    assert (facts.state, facts.tasks[0].state, facts.offsets_count) == ("RUNNING", "FAILED", 2)
    assert facts.offset is not None
    assert facts.offset.raw == {"file": "b.000004", "pos": 198}
    assert facts.key == facts.offset.key == {"server": "shop1"}
    assert facts.config["database.password"] == "***"
    assert "hunter22" not in repr(facts)
    assert connect.raw_config("shop") == CONFIG


def test_an_invalid_config_is_told_without_its_secrets(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [error(400, "Invalid value hunter22 for configuration database.password: too short")]
    with pytest.raises(ConnectorError, match="Invalid value") as caught:
        connect.put_config("shop", CONFIG)
    assert "hunter22" not in str(caught.value)
    assert server.requests[0][2] == CONFIG


def test_a_changed_config_is_read_back_and_the_old_one_put_back_where_it_differs(
    server: Scripted, connect: DebeziumConnector
) -> None:
    after = {**CONFIG, "tasks.max": "7"}
    server.answers = [Answer(200, {}), Answer(200, after)]
    connect.change_config("shop", CONFIG, after)
    server.answers = [Answer(200, {}), Answer(200, {**after, "tasks.max": "8"}), Answer(200, {})]
    with pytest.raises(ConnectorError, match="read back differs from what was written") as caught:
        connect.change_config("shop", CONFIG, after)
    assert [(method, body) for method, _, body, *_ in server.requests] == [
        *(("PUT", after), ("GET", None)) * 2,
        ("PUT", CONFIG),
    ]
    assert "hunter22" not in str(caught.value)


def test_a_bare_500_for_a_config_is_explained_by_validation(server: Scripted, connect: DebeziumConnector) -> None:
    """As Connect 4.3.1 answers, with values that are null for settings it does not know."""
    faulty = {"value": {"name": "database.hostname", "errors": ["Unable to connect with hunter22"]}}
    answer = {"configs": [faulty, {"value": None}, {"value": {"name": "tasks.max", "errors": []}}]}

    def respond(_: str, path: str, __: Any) -> Answer:
        return Answer(200, answer) if path.endswith("/validate") else error(500, "Cannot invoke … is null")

    server.respond = respond
    with pytest.raises(ConnectorError, match=r"invalid: database\.hostname: Unable to connect with \*\*\*") as caught:
        connect.put_config("shop", CONFIG)
    assert caught.value.status == 400
    answer["configs"] = []
    with pytest.raises(ConnectorError, match="HTTP 500: Cannot invoke"):
        connect.put_config("shop", CONFIG)


def test_create_that_was_answered_into_the_void_is_success(server: Scripted, connect: DebeziumConnector) -> None:
    exists = error(409, "Connector shop already exists")
    server.respond = lambda method, *_: exists if method == "POST" else Answer(200, {**CONFIG, "name": "shop"})
    connect.create("shop", CONFIG, initial_state="STOPPED")
    assert server.requests[0][2] == {"name": "shop", "config": CONFIG, "initial_state": "STOPPED"}
    with pytest.raises(ConnectorError, match="already exists"):
        connect.create("shop", {**CONFIG, "topic.prefix": "other"})


def test_deleting_what_is_gone_is_no_error(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [error(404, "Connector shop not found")]
    connect.delete("shop")
    assert server.requests[0][:2] == ("DELETE", "/connectors/shop")


def test_restart_only_failed_tasks(server: Scripted, connect: DebeziumConnector) -> None:
    server.answers = [Answer(202, state("RESTARTING"))]
    connect.restart("shop")
    assert server.requests[0][1] == "/connectors/shop/restart?includeTasks=true&onlyFailed=true"


def test_credentials_in_the_url_are_moved_out_of_it() -> None:
    endpoint = ConnectEndpoint("https://ops:pa55word@connect:8083/rest/")
    assert (endpoint.url, endpoint.user, endpoint.password) == ("https://connect:8083/rest", "ops", "pa55word")
    assert "pa55word" not in repr(endpoint) + endpoint.where


@pytest.mark.parametrize("url", ["", "ftp://connect", "http://"])
def test_an_unusable_url_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError, match="no usable URL"):
        ConnectEndpoint(url)


def test_a_missing_ca_file_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"CA file /none\.pem"):
        KafkaConnect(ConnectEndpoint("https://127.0.0.1:1", verify="/none.pem")).root()


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        ("", "no trace"),
        ("java.lang.X: first\n\tat a", "java.lang.X: first"),
        ("A: a\n\tat x\nCaused by: B: b\n\tat y\nCaused by: C: c\n\t... 3 more", "C: c"),
    ],
)
def test_root_cause(trace: str, cause: str) -> None:
    assert root_cause(trace) == cause
