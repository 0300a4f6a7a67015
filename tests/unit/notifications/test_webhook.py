"""The webhook, on a real HTTP server: one message, tried again where it was certainly not taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_cdc.core.errors import CdcError
from airflow_cdc.notifications import webhook
from airflow_cdc.notifications.webhook import WebhookNotifier
from tests.unit.http_server import Answer, Scripted, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setattr(webhook, "FIRST_WAIT_SECONDS", 0.01)
    with serving() as script:
        conn = {"conn_type": "http", "host": f"{script.url}/hook", "password": "t0ken"}
        monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(conn))
        yield script


def notify() -> None:
    context: Any = {}
    WebhookNotifier(conn_id="ops", text="shop: GTID_PURGED").notify(context)


@pytest.mark.parametrize(
    ("answers", "posts"), [([200], 1), ([503, 200], 2), ([429, 500, 200], 3)], ids=["taken", "busy", "twice"]
)
def test_a_message_that_a_busy_server_did_not_take_is_sent_again(
    server: Scripted, answers: list[int], posts: int
) -> None:
    server.answers = [Answer(status) for status in answers]
    notify()
    assert [(method, path, body) for method, path, body, _ in server.requests] == [
        ("POST", "/hook", {"text": "shop: GTID_PURGED"})
    ] * posts


@pytest.mark.parametrize(("status", "posts"), [(500, 3), (403, 1)])
def test_one_that_is_not_taken_is_an_error_without_the_token(server: Scripted, status: int, posts: int) -> None:
    server.answers = [Answer(status)]
    with pytest.raises(CdcError, match="was rejected") as raised:
        notify()
    assert "t0ken" not in str(raised.value)
    assert len(server.requests) == posts
