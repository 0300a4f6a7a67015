"""What is said of an answer of Flink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.rest import FlinkRest, advised
from airflow_cdc.core.errors import ConnectorError, DeadlineError
from tests.unit.http_server import Answer, Scripted, serving

# of a job with Hudi's sink, started a second time by one SQL gateway
UNMAPPED = (
    "HTTP 500: java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint file:/x/chk-8. Cannot map"
    " checkpoint/savepoint state for operator 4e7e8408c7c0798e39d4445d3500b44d to the new program, because the operator is not"
    " available in the new program."
)


def test_a_state_of_other_operators_says_what_to_restart() -> None:
    assert "Restart the SQL gateway" in advised(ConnectorError(UNMAPPED, where="Flink", todo="See the log.")).todo
    assert advised(ConnectorError("HTTP 500: no", where="Flink", todo="See the log.")).todo == "See the log."


# ---- what is asked, and what an answer means. The server is made; real ones: tests/integration/flink


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving() as made:
        yield made


def rest(server: Scripted, **more: Any) -> FlinkRest:
    return FlinkRest(FlinkEndpoint(server.url, gateway=server.url, **more))


def asked(server: Scripted) -> list[str]:
    return [f"{method} {path}" for method, path, _, _ in server.requests]


def savepoint(**operation: Any) -> list[Answer]:
    """The answers to a stop: its request, once that it is not done yet, and how it ended."""
    return [
        Answer(202, {"request-id": "r1"}),
        Answer(body={"status": {"id": "IN_PROGRESS"}, "operation": None}),
        Answer(body={"status": {"id": "COMPLETED"}, "operation": operation}),
    ]


@pytest.mark.parametrize(
    ("folder", "body"),
    [("", {"drain": False}), ("s3://b/s", {"targetDirectory": "s3://b/s", "drain": False})],
    ids=["the cluster's own", "named"],
)
def test_a_stopped_job_keeps_its_windows_open_and_its_savepoint_where_it_was_asked_for(
    server: Scripted, folder: str, body: dict[str, Any]
) -> None:
    """A drained job would close windows as if no event came any more."""
    server.answers = savepoint(location="file:/s/savepoint-1")
    assert rest(server, savepoints=folder).stop_with_savepoint("j1", 5) == "file:/s/savepoint-1"
    assert asked(server)[0] == "POST /jobs/j1/stop"
    assert server.requests[0][2] == body
    assert set(asked(server)[1:]) == {"GET /jobs/j1/savepoints/r1"}


def test_a_savepoint_that_failed_is_an_error_with_its_cause(server: Scripted) -> None:
    trace = "java.util.concurrent.CompletionException: x\nCaused by: java.io.IOException: disk full"
    server.answers = savepoint(**{"failure-cause": {"class": "x", "stack-trace": trace}})
    with pytest.raises(ConnectorError, match=r"the savepoint failed: .*disk full"):
        rest(server).stop_with_savepoint("j1", 5)


def test_a_job_without_checkpoints_is_told_from_one_that_cannot_be_asked(server: Scripted) -> None:
    server.answers = [Answer(404, {"errors": ["Checkpointing is not enabled"]})]
    assert rest(server).checkpoint_settings("j1") is None
    server.answers = [Answer(500, {"errors": ["no"]})]
    with pytest.raises(ConnectorError, match="HTTP 500") as refused:
        rest(server).checkpoint_settings("j1")
    assert refused.value.status == 500


def gateway(*statuses: str, result: Answer) -> Any:
    """An SQL gateway whose operation has these statuses, one after the other."""
    left = list(statuses)

    def respond(method: str, path: str, _body: Any) -> Answer:
        if method == "POST":
            return Answer(body={"operationHandle": "o1"} if path.endswith("/statements") else {"sessionHandle": "s1"})
        if path.endswith("/status"):
            return Answer(body={"status": left.pop(0) if len(left) > 1 else left[0]})
        return result if "/result/" in path else Answer(body={})

    return respond


STARTED = Answer(body={"results": {"data": [{"kind": "INSERT", "fields": ["j9"]}]}})


def test_a_plan_is_executed_in_a_session_of_its_own_that_is_closed(server: Scripted) -> None:
    server.respond = gateway("RUNNING", "FINISHED", result=STARTED)
    assert rest(server).execute_plan("/p/it's.json", {"pipeline.name": "shop"}, 5) == "j9"
    bodies = [body for _, _, body, _ in server.requests if body]
    assert bodies == [{"properties": {"pipeline.name": "shop"}}, {"statement": "EXECUTE PLAN '/p/it''s.json'"}]
    assert asked(server)[-1] == "DELETE /v1/sessions/s1"


@pytest.mark.parametrize(
    ("statuses", "result", "error"),
    [
        (["ERROR"], Answer(500, {"errors": ["Caused by: java.lang.X: no such table"]}), "no such table"),
        (["RUNNING"], STARTED, "to start the job"),
    ],
    ids=["refused", "takes too long"],
)
def test_a_start_that_failed_leaves_no_session_behind(
    server: Scripted, statuses: list[str], result: Answer, error: str
) -> None:
    server.respond = gateway(*statuses, result=result)
    with pytest.raises((ConnectorError, DeadlineError), match=error):
        rest(server).execute_plan("/p", {}, 0.3)
    assert asked(server)[-1] == "DELETE /v1/sessions/s1"


def test_without_a_gateway_nothing_is_started(server: Scripted) -> None:
    with pytest.raises(ConnectorError, match="no SQL gateway is known"):
        FlinkRest(FlinkEndpoint(server.url)).execute_plan("/p", {}, 5)
    assert server.requests == []


def test_something_else_that_answers_there_is_named(server: Scripted) -> None:
    server.answers = [Answer(body=b"<html>a proxy</html>", content_type="text/html")]
    with pytest.raises(ConnectorError, match="the answer is not JSON"):
        rest(server).overview()


def test_a_login_in_the_address_is_sent_and_never_shown(server: Scripted) -> None:
    server.answers = [Answer(body={"jobs": [{"jid": "j1"}]})]
    made = FlinkRest(FlinkEndpoint(server.url.replace("://", "://ann:hush-1@")))
    assert made.overview() == [{"jid": "j1"}]
    headers = {name.lower(): value for name, value in server.requests[0][3].items()}
    assert headers["authorization"].startswith("Basic ")
    assert "hush-1" not in made.where
