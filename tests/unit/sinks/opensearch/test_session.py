"""What a cluster, or another service at its address, may not do to a call."""

from __future__ import annotations

import time

import pytest

from airflow_cdc.core.errors import UnknownStateError
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.sinks.opensearch.session import Session
from tests.unit.test_answers import HEAD, dribbled, speaking

JSON = HEAD + b"content-type: application/json\r\n"


@pytest.mark.parametrize(
    "text",
    [
        HEAD * 50,
        JSON + b"content-length: 999\r\n\r\n" + b" " * 999,
        JSON + b"\r\n" + b" " * 999,
        JSON + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 99,
    ],
    ids=["head", "body", "body without a length", "chunks"],
)
def test_an_answer_that_comes_byte_by_byte_ends_at_the_deadline_for_all_of_it(text: bytes) -> None:
    with speaking(dribbled(text)) as url:
        session, began = Session(OpenSearchEndpoint(url, timeout=1.0)), time.monotonic()
        with pytest.raises(UnknownStateError) as error, session.asked("the cluster was not asked") as client:
            client.info()
        assert time.monotonic() - began < 4.0
        session.close()
    assert "the cluster was not asked" in error.value.what
    assert error.value.where


def test_an_answer_in_time_is_read_and_the_connection_used_again() -> None:
    body = b'{"version": {"number": "3.2.0"}}'
    text = JSON + b"content-length: %d\r\n\r\n" % len(body) + body
    with speaking(lambda one: one.sendall(text)) as url:
        session = Session(OpenSearchEndpoint(url, timeout=5.0))
        with session.asked("the cluster was not asked") as client:
            assert client.info() == {"version": {"number": "3.2.0"}}
        session.close()
