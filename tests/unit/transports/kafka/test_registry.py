"""The registry's client: what each answer means, and what is never said."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConfigError, TransportError
from airflow_cdc.events.record import SchemaId
from airflow_cdc.transports.kafka.registry import RegistryBusyError, RegistryEndpoint, SchemaRegistry
from tests.unit.http_server import Answer, Scripted, serving

SEVEN, EIGHT = SchemaId("contentId", 7), SchemaId("contentId", 8)
TEXT = '{"type":"string"}'
UNKNOWN = Answer(404, {"error_code": 40403, "message": "Schema 8 not found"})


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving() as script:
        yield script


def registry(server: Scripted, path: str = "", **more: object) -> SchemaRegistry:
    endpoint = RegistryEndpoint(server.url + path, retry_for=0.3, **more)  # type: ignore[arg-type]
    return SchemaRegistry(endpoint)


def test_a_schema_is_asked_once_and_an_unknown_one_again(server: Scripted) -> None:
    server.answers = [Answer(200, {"schema": TEXT}), UNKNOWN, Answer(200, {"schema": TEXT})]
    client = registry(server)
    assert client.texts([SEVEN, EIGHT]) == {SEVEN: TEXT}
    assert client.texts([SEVEN, EIGHT]) == {SEVEN: TEXT, EIGHT: TEXT}
    assert [path for _, path, *_ in server.requests] == ["/schemas/ids/7", "/schemas/ids/8", "/schemas/ids/8"]


@pytest.mark.parametrize(
    ("answer", "what", "todo"),
    [
        (Answer(401, {"error_code": 401, "message": "no cdc:secret9"}), "refused the login", "login and password"),
        (Answer(403, b"<html>", content_type="text/html"), "refused the login", "login and password"),
        (Answer(404, b"<html>", content_type="text/html"), "no schema registry's", "check the URL"),
        (Answer(404, {"error_code": []}), "is not one of a schema registry's", "check the address"),
        (Answer(404, {"error_code": 404001, "message": "cdc:secret9"}), "no schema registry's", "check the URL"),
        (Answer(200, b"<html>login</html>", content_type="text/html"), "no schema registry's", "check the URL"),
        (Answer(503, {"message": "cdc:secret9"}), "HTTP 503", "Check the registry's address"),
        (Answer(500, {"error_code": 50001}), "HTTP 500", "Check the registry's address"),
        (Answer(drop=True), "did not answer", "Check the registry's address"),
        (Answer(200, {"schema": TEXT}, cut=True), "did not answer", "Check the registry's address"),
        (
            Answer(200, {"schema": TEXT, "references": [{"name": "o", "subject": "o", "version": 1}]}),
            "refers to others",
            "",
        ),
    ],
)
def test_only_a_registry_that_says_so_does_not_know_a_schema(
    server: Scripted, answer: Answer, what: str, todo: str
) -> None:
    server.answers = [answer]
    with pytest.raises(TransportError, match=what) as error:
        registry(server, user="cdc", password="secret9").texts([SEVEN])
    assert todo in error.value.todo
    assert "secret9" not in f"{error.value} {error.value.todo} {error.value.where}"
    assert server.url in str(error.value.where)


def test_a_schema_of_protobuf_is_text_of_its_own_in_apicurios_interface(server: Scripted) -> None:
    """As 2.6.13 answers, with this type and no JSON; Confluent's puts the text into an object, as any."""
    text = 'syntax = "proto3"; message Key { string é = 1; }'
    server.answers = [Answer(200, text.encode(), content_type="application/binary"), Answer(200, {"schema": text})]
    assert registry(server, "/apis/registry/v2").texts([SEVEN]) == {SEVEN: text}
    assert registry(server).texts([SEVEN]) == {SEVEN: text}


def test_a_registry_that_answers_at_last_is_waited_for(server: Scripted) -> None:
    server.answers = [Answer(503), Answer(drop=True), Answer(200, {"schema": TEXT})]
    client = SchemaRegistry(RegistryEndpoint(server.url, retry_for=20))
    assert client.texts([SEVEN]) == {SEVEN: TEXT}


def test_a_call_ends_within_its_limits(server: Scripted) -> None:
    server.answers = [Answer(delay=threading.Event())]
    client = SchemaRegistry(RegistryEndpoint(server.url)).limited(CallLimits(answer=0.2, retry=0.2))
    with pytest.raises(RegistryBusyError, match="Timeout"):
        client.texts([SEVEN])
    client.close()


def test_the_login_is_sent_and_shown_nowhere(server: Scripted) -> None:
    server.answers = [Answer(200, {"schema": TEXT})]
    address = server.url.replace("://", "://cdc:pa%2Fss9@")
    client = SchemaRegistry(RegistryEndpoint(address))
    client.texts([SEVEN])
    headers = {name.lower(): value for name, value in server.requests[0][3].items()}
    assert headers["authorization"] == "Basic Y2RjOnBhL3NzOQ=="
    assert "ss9" not in f"{client.endpoint} {client.where}"


@pytest.mark.parametrize(
    ("path", "schema", "asked"),
    [
        ("", SEVEN, "/schemas/ids/7"),
        ("/base", SEVEN, "/base/schemas/ids/7"),
        ("/apis/registry/v2", SEVEN, "/apis/registry/v2/ids/contentIds/7"),
        ("/apis/ccompat/v7", SEVEN, "/apis/registry/v2/ids/contentIds/7"),
        ("/apis/ccompat/v7/", SchemaId("globalId", 7), "/apis/registry/v2/ids/globalIds/7"),
    ],
)
def test_an_id_is_asked_of_the_interface_that_numbers_by_it(
    server: Scripted, path: str, schema: SchemaId, asked: str
) -> None:
    server.answers = [Answer(200, json.loads(TEXT))]
    assert {one: json.loads(text) for one, text in registry(server, path).texts([schema]).items()} == {
        schema: json.loads(TEXT)
    }
    assert server.requests[0][1] == asked


def test_a_global_id_is_not_asked_of_an_interface_that_numbers_otherwise(server: Scripted) -> None:
    with pytest.raises(ConfigError, match="global ids"):
        registry(server).texts([SchemaId("globalId", 7)])
    assert not server.requests


def test_a_ca_file_that_cannot_be_read_is_named(server: Scripted) -> None:
    with pytest.raises(ConfigError, match=r"no\.pem"):
        registry(server, ca_file="/no.pem").texts([SEVEN])


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("", "/subjects"),
        ("/apis/registry/v2", "/apis/registry/v2/system/info"),
        ("/apis/ccompat/v7", "/apis/registry/v2/system/info"),
    ],
)
def test_a_registry_is_tried_by_a_question_that_each_interface_answers(server: Scripted, path: str, asked: str) -> None:
    server.answers = [Answer(200, [] if path == "" else {"name": "Apicurio"})]
    registry(server, path).reach()
    assert [one for _, one, *_ in server.requests] == [asked]


def test_something_else_that_answers_is_no_registry(server: Scripted) -> None:
    server.answers = [Answer(200, b"<html>", content_type="text/html")]
    with pytest.raises(TransportError, match="no schema registry's"):
        registry(server).reach()
    server.answers = [Answer(401, {})]
    with pytest.raises(TransportError, match="refused the login"):
        registry(server).reach()
