"""Bearer tokens, OAuth and client certificates, against real HTTP and TLS servers on loopback."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_cdc.connectors.kafka_connect import http
from airflow_cdc.connectors.kafka_connect.auth import ClientCredentials, Identity
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint, ConnectHttp
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConfigError, ConnectorError
from airflow_cdc.hooks.kafka_connect import KafkaConnectHook
from tests.integration.certificates import Certificates, make_certificates
from tests.unit.http_server import Answer, Scripted, serving

SECRET = "s3cret-client"
SHORT = CallLimits.waited_for(3)


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving() as script:
        yield script


def asked(endpoint: ConnectEndpoint) -> Any:
    made = ConnectHttp(endpoint)
    try:
        return made.call("GET", [])
    finally:
        made.close()


def test_a_password_without_a_login_is_a_token(server: Scripted) -> None:
    server.answers = [Answer(200, {"version": "4.3.1"})]
    asked(ConnectEndpoint(server.url, password=SECRET, retry_for=5))
    assert server.requests[0][3]["Authorization"] == f"Bearer {SECRET}"


def test_a_login_is_basic_authentication_as_before(server: Scripted) -> None:
    server.answers = [Answer(200, {})]
    asked(ConnectEndpoint(server.url, "u", "p", retry_for=5))
    assert server.requests[0][3]["Authorization"] == "Basic " + b64encode(b"u:p").decode()


class Form:
    """A token server takes a form, which the scripted server cannot read as JSON."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers, self.bodies = list(answers), []  # type: ignore[var-annotated]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/token":
            status = 401 if request.headers["Authorization"] == "Bearer old" else 200
            return httpx.Response(status, json={"version": "4.3.1"}, request=request)
        self.bodies.append((request.content.decode(), request.headers["Authorization"]))
        status, body = self.answers.pop(0)
        return httpx.Response(status, json=body, request=request)


def flow(form: Form, auth: ClientCredentials, times: int = 1) -> list[httpx.Response]:
    with httpx.Client(transport=httpx.MockTransport(form), auth=auth) as client:
        return [client.get("http://connect/") for _ in range(times)]


WHO = Identity("client", SECRET, token_url="http://idp/token", scope="connect")


def test_a_token_is_asked_for_once_and_used_until_it_ends() -> None:
    now = [0.0]
    form = Form((200, {"access_token": "t1", "expires_in": 100}), (200, {"access_token": "t2", "expires_in": 100}))
    auth = ClientCredentials(WHO, clock=lambda: now[0])
    assert [answer.request.headers["Authorization"] for answer in flow(form, auth, 3)] == ["Bearer t1"] * 3
    body, who = form.bodies[0]
    assert body == "grant_type=client_credentials&scope=connect"
    assert who == "Basic " + b64encode(f"client:{SECRET}".encode()).decode()
    now[0] = 71.0  # it ends in 29 s
    assert flow(form, auth)[0].request.headers["Authorization"] == "Bearer t2"
    assert len(form.bodies) == 2


def test_a_token_that_is_refused_is_asked_for_anew_once() -> None:
    form = Form((200, {"access_token": "new", "expires_in": 100}))
    auth = ClientCredentials(WHO, clock=lambda: 0.0)
    auth._token, auth._until = "old", 50.0
    (answer,) = flow(form, auth)
    assert (answer.status_code, answer.request.headers["Authorization"]) == (200, "Bearer new")


@pytest.mark.parametrize("refusal", [(401, {"error": SECRET}), (200, {}), (200, [SECRET]), (500, None)])
def test_no_token_is_one_clear_error_without_the_secret(refusal: tuple[int, Any]) -> None:
    with pytest.raises(
        ConnectorError, match=r"no token was issued \(HTTP \d+\).*http://idp/token.*Check token_url"
    ) as raised:
        flow(Form(refusal), ClientCredentials(WHO))
    assert SECRET not in str(raised.value)


# ---- a server that asks for a certificate ---------------------------------------------------------------------------


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


@pytest.fixture
def demanding(certificates: Certificates) -> Iterator[str]:
    """A real TLS server on a free port that talks only to holders of a certificate of the authority."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def do_GET(self) -> None:
            text = json.dumps({"version": "4.3.1"}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    httpd.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def defined(monkeypatch: pytest.MonkeyPatch, url: str, **extra: str) -> ConnectEndpoint:
    monkeypatch.setenv("AIRFLOW_CONN_TRIED", json.dumps({"conn_type": "kafka_connect", "host": url, "extra": extra}))
    return KafkaConnectHook("tried").endpoint()


def test_a_client_certificate_opens_a_server_that_asks_for_one(
    monkeypatch: pytest.MonkeyPatch, demanding: str, certificates: Certificates
) -> None:
    made = {"cert_file": str(certificates.certificate), "key_file": str(certificates.key)}
    endpoint = defined(monkeypatch, demanding, ca_file=str(certificates.authority), **made)
    assert asked(endpoint) == {"version": "4.3.1"}
    assert KafkaConnectHook("tried").test_connection() == (True, "Kafka Connect: connection works")


def test_without_one_it_stays_closed(
    monkeypatch: pytest.MonkeyPatch, demanding: str, certificates: Certificates
) -> None:
    endpoint = defined(monkeypatch, demanding, ca_file=str(certificates.authority))
    with pytest.raises(ConnectorError):
        asked(endpoint.limited(SHORT))


def test_a_key_of_another_certificate_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, demanding: str, certificates: Certificates
) -> None:
    made = {"cert_file": str(certificates.stranger), "key_file": str(certificates.key)}
    endpoint = defined(monkeypatch, demanding, ca_file=str(certificates.authority), **made)
    with pytest.raises(ConfigError, match=r"client certificate cannot be used.*stranger\.pem.*belong together"):
        asked(endpoint)


def test_no_secret_is_shown() -> None:
    endpoint = ConnectEndpoint("http://c", "u", SECRET, key_password=SECRET, token_url="http://idp/token")
    assert SECRET not in repr(endpoint) + repr(endpoint.identity)


@pytest.mark.parametrize(
    ("endpoint", "trusts"),
    [
        (ConnectEndpoint("http://c"), False),
        (ConnectEndpoint("http://c", "u", SECRET, token_url="http://idp/token"), False),
        (ConnectEndpoint("https://c"), True),
        (ConnectEndpoint("http://c", "u", SECRET, token_url="https://idp/token"), True),
        (ConnectEndpoint("http://c", trust_env=True), True),
    ],
    ids=["plain", "plain, with its token server", "TLS", "token server with TLS", "by a proxy"],
)
def test_the_systems_authorities_are_read_wherever_tls_may_be_spoken_and_only_there(
    endpoint: ConnectEndpoint, trusts: bool
) -> None:
    """Reading them takes 20 ms, which each command and each look would pay."""
    verify = http._verify(endpoint)
    assert (verify is True) is trusts
    if isinstance(verify, ssl.SSLContext):  # whoever answers with TLS all the same is not trusted
        assert (verify.get_ca_certs(), verify.verify_mode, verify.check_hostname) == ([], ssl.CERT_REQUIRED, True)


def test_a_server_whose_certificate_nobody_checks_is_still_allowed_by_its_setting() -> None:
    assert http._verify(ConnectEndpoint("https://c", verify=False)) is False
