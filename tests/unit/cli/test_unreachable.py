"""Commands that a person waits for say soon that nothing could be read: exit status 3, one line, within ten seconds."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_cdc.cli import forecast as outlook
from airflow_cdc.cli import reading
from airflow_cdc.connectors.kafka_connect.http import ConnectorMissingError
from airflow_cdc.core.errors import SourceError, UnknownStateError
from airflow_cdc.operators.base import find_pipeline, open_run
from airflow_cdc.sources.errors import SourceUnreachableError
from tests.unit.conftest import Answer

SOON_S = 10.0
WORDS = [("forecast", "shop"), ("offset", "get", "shop")]


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def connect_at(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"conn_type": "kafka_connect", "host": "127.0.0.1", "port": port, "schema": "http"}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_CONNECT", json.dumps(here))


def asked(cdc: Callable[..., Answer], words: tuple[str, ...]) -> tuple[Answer, float]:
    open_run(find_pipeline("shop"), "first")  # what is imported once is no part of the wait
    began = time.monotonic()
    return cdc(*words), time.monotonic() - began


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
@pytest.mark.parametrize("dead", ["refused", "silent"])
def test_a_connect_that_does_not_answer_is_unknown_soon(
    words: tuple[str, ...], dead: str, silent: int, cdc: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_at(silent if dead == "silent" else 1, monkeypatch)
    answer, seconds = asked(cdc, words)
    assert (answer.status, answer.err.count("\n")) == (3, 1), answer.err
    assert "Kafka Connect http://127.0.0.1" in answer.err
    assert seconds < SOON_S


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SourceUnreachableError("cannot connect", where="db"), 3),
        (ConnectorMissingError("there is no connector shop"), 1),
        (SourceError("b.000001 is not on the server"), 1),
        (UnknownStateError("the connector has no offset"), 3),
    ],
)
def test_what_is_known_is_no_unknown(error: Exception, status: int, cdc: Callable[..., Answer], spec: Any) -> None:
    spec(outlook, "forecast_pipeline", error)
    answer = cdc("forecast", "shop")
    assert answer.status == status
    assert str(error) in answer.err


def test_reading_ends_even_where_a_system_never_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_WITHIN_S", 0.2)
    held, _peer = socket.socketpair()
    with pytest.raises(UnknownStateError, match=r"nothing could be read within 0 s"):
        reading.read_soon(lambda: held.recv(1), where="pipeline shop")
