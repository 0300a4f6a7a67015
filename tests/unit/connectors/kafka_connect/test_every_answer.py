"""Each answer of Connect's REST interface and each way in which none comes, and what a user is told of it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from airflow_cdc.answers import TooMuchError
from airflow_cdc.connectors.kafka_connect import http as of_connect
from airflow_cdc.connectors.kafka_connect.http import (
    ConnectEndpoint,
    ConnectHttp,
    ConnectorMissingError,
    ConnectTooOldError,
    ConnectUnreachableError,
    RebalancingError,
    release_of,
)
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConnectorError

URL = "http://connect:8083"


def answering(
    monkeypatch: pytest.MonkeyPatch, *answers: httpx.Response | Exception, retry_for: float = 0.0
) -> ConnectHttp:
    """A client whose requests get these answers, or errors, in order; the last one again and again."""
    left = list(answers)

    def ask(*_: object, **__: object) -> httpx.Response:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(of_connect, "ask", ask)
    return ConnectHttp(ConnectEndpoint(URL, retry_for=retry_for))


def said(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error_code": status, "message": message})


@pytest.mark.parametrize(
    ("answer", "error", "told", "todo"),
    [
        (said(401, "no"), ConnectorError, "HTTP 401: no", "Check login and password"),
        (said(403, "no"), ConnectorError, "HTTP 403: no", "may not do this"),
        (said(404, "Connector shop not found"), ConnectorMissingError, "HTTP 404: Connector shop", "GET /connectors"),
        (said(405, "HTTP 405 Method Not Allowed"), ConnectTooOldError, "does not know this request", "too old for it"),
        (said(409, "a conflicting operation"), RebalancingError, "HTTP 409", "keeps rebalancing"),
        (said(409, "Connector shop already exists"), ConnectorError, "already exists", "keeps rebalancing"),
        (said(500, "a rebalance is expected"), RebalancingError, "HTTP 500", ""),
        (said(500, "boom"), ConnectorError, "HTTP 500: boom", ""),
        (said(400, "bad"), ConnectorError, "HTTP 400: bad", ""),
    ],
)
def test_each_refusal_is_told_apart_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, error: type[ConnectorError], told: str, todo: str
) -> None:
    with pytest.raises(ConnectorError) as caught:
        answering(monkeypatch, answer).call("GET", ["connectors", "shop"])
    assert type(caught.value) is error
    assert (caught.value.status, told in caught.value.what) == (answer.status_code, True)
    assert todo in caught.value.todo
    assert bool(todo) == bool(caught.value.todo)


@pytest.mark.parametrize("message", ["HTTP 404 Not Found", "Not Found"])
def test_a_404_of_the_server_itself_is_a_request_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    old = httpx.Response(200, json={"version": "3.5.1"})
    with pytest.raises(ConnectTooOldError) as caught:
        answering(monkeypatch, said(404, message), old).call("PUT", ["connectors", "shop", "stop"])
    assert caught.value.status == 404


@pytest.mark.parametrize(
    "broken",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.WriteError("reset"),
        httpx.RemoteProtocolError("closed"),
    ],
    ids=lambda broken: type(broken).__name__,
)
def test_a_connection_that_breaks_is_tried_again(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    client = answering(monkeypatch, broken, httpx.Response(200, json=[]), retry_for=5)
    assert client.call("GET", ["connectors"]) == []
    with pytest.raises(ConnectUnreachableError, match="Connect could not be reached: re"):
        answering(monkeypatch, type(broken)("refused")).call("GET", ["connectors"])


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (httpx.ReadTimeout("late"), r"no answer within 30 s \(ReadTimeout\)"),
        (httpx.ConnectTimeout("late"), r"no answer within 30 s \(ConnectTimeout\)"),
        (TooMuchError("the answer is larger than 1 GB"), "larger than 1 GB"),
        (httpx.UnsupportedProtocol("ftp"), "the request failed: UnsupportedProtocol"),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]"), "the certificate of Connect is not trusted"),
    ],
    ids=["read", "connect", "too much", "another", "certificate"],
)
def test_what_would_be_the_same_again_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, broken: Exception, told: str
) -> None:
    client = answering(monkeypatch, broken, httpx.Response(200, json=[]), retry_for=5)
    with pytest.raises(ConnectorError, match=told) as caught:
        client.call("GET", ["connectors"])
    assert type(caught.value) is ConnectorError
    assert "GET /connectors" in str(caught.value)
    assert caught.value.todo


def test_a_good_answer_without_content_is_none_and_one_that_is_no_json_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert answering(monkeypatch, httpx.Response(204)).call("PUT", ["connectors", "shop", "stop"]) is None
    page: dict[str, Any] = {"text": "<html>", "headers": {"content-type": "text/html; charset=x"}}
    for status in (200, 502):
        with pytest.raises(ConnectorError, match=rf"not JSON but text/html \(HTTP {status}\)") as caught:
            answering(monkeypatch, httpx.Response(status, **page)).call("GET", [])
        assert (caught.value.status, "check the URL" in caught.value.todo) == (status, True)
    with pytest.raises(ConnectorError, match="not JSON but no content type"):
        answering(monkeypatch, httpx.Response(200, content=b"x")).call("GET", [])
    with pytest.raises(ConnectorError, match="not JSON but application/json"):
        answering(monkeypatch, httpx.Response(500, json=["no object"])).call("GET", [])


def test_an_error_without_a_message_is_told_by_its_status_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectorError, match="HTTP 503: Service Unavailable"):
        answering(monkeypatch, httpx.Response(503, json={})).call("GET", [])
    with pytest.raises(ConnectorError) as caught:
        answering(monkeypatch, said(400, "bad hush-1")).call("PUT", ["connectors"], secrets=["hush-1"])
    assert "hush-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("root", "release"),
    [
        ({"version": "3.6.2"}, (3, 6)),
        ({"version": "7.5.0-ccs"}, (7, 5)),
        ({"version": "unknown"}, ()),
        ({"version": None}, ()),
        ({}, ()),
        (["3.6"], ()),
        ("3.6", ()),
        (None, ()),
    ],
)
def test_a_worker_is_of_the_release_that_it_tells(root: object, release: tuple[int, ...]) -> None:
    assert release_of(root) == release


def test_a_client_asks_for_json_and_waits_no_longer_than_it_was_told() -> None:
    """A machine that is not there shows within 10 s; a worker that thinks may take the whole time."""
    for timeout, connect in ((30.0, 10.0), (4.0, 4.0)):
        client = ConnectHttp(ConnectEndpoint(URL, timeout=timeout))._http()
        assert (client.timeout.connect, client.timeout.read) == (connect, timeout)
        assert client.headers["Accept"] == "application/json"
        assert str(client.base_url).rstrip("/") == URL


@pytest.mark.parametrize("wanted", [True, False])
def test_a_proxy_of_the_environment_is_used_only_if_the_connection_says_so(*, wanted: bool) -> None:
    assert ConnectHttp(ConnectEndpoint(URL, trust_env=wanted))._http().trust_env is wanted
    assert not ConnectEndpoint(URL).trust_env


def test_a_client_is_made_once_and_its_sockets_are_given_back() -> None:
    one = ConnectHttp(ConnectEndpoint(URL))
    one.close()
    client = one._http()
    assert one._http() is client
    one.close()
    assert client.is_closed
    assert one._http() is not client


def test_limits_make_a_call_shorter_and_never_longer() -> None:
    endpoint = ConnectEndpoint(URL, timeout=30, retry_for=60)
    short = endpoint.limited(CallLimits(answer=5, retry=7))
    long = endpoint.limited(CallLimits(answer=500, retry=700))
    assert (short.timeout, short.retry_for, long.timeout, long.retry_for) == (5, 7, 30, 60)


def test_a_login_in_an_address_is_taken_where_none_is_given() -> None:
    at = ConnectEndpoint("http://ann:hush@connect:8083/", token_url="http://bob:hush@token/")
    assert (at.user, at.password, at.url, at.token_url) == ("ann", "hush", URL, "http://token")
    assert ConnectEndpoint(URL, token_url="http://bob:hush@token/").user == "bob"
    given = ConnectEndpoint("http://ann:hush@connect:8083", user="eve", password="pw")
    assert (given.user, given.password) == ("eve", "pw")
