"""RabbitMQ over TLS: a real server whose message port asks for a client's certificate, with users of different permissions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_cdc.core.errors import CdcError, ConfigError, TransportError
from airflow_cdc.hooks.rabbitmq import CdcRabbitMqHook
from airflow_cdc.spark_apps.adapters.rabbitmq import StreamQueues
from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from stack import Stack
from stack.ports import HOST, free_ports
from stack.rabbitmq import RabbitServer, start_rabbitmq
from tests.integration.certificates import Certificates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PASSWORD = "Pa55word-of-rabbit"
VHOST = "shop/eu"


@pytest.fixture(scope="module")
def secured(
    servers: Stack, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[RabbitMqEndpoint]:
    """A server's TLS ports, as a connection has them."""
    port, management = free_ports(2)
    c = certificates
    files = {"cacertfile": str(c.authority), "certfile": str(c.certificate), "keyfile": str(c.key)}
    more = {
        "listeners.ssl.1": f"{HOST}:{port}",
        **{f"ssl_options.{name}": path for name, path in files.items()},
        "ssl_options.verify": "verify_peer",
        "ssl_options.fail_if_no_peer_cert": "true",
        "management.ssl.ip": HOST,
        "management.ssl.port": str(management),
        **{f"management.ssl.{name}": path for name, path in files.items()},
    }
    server = start_rabbitmq(tmp_path_factory.mktemp("secured"), servers.logs, more=more)
    try:
        make_users(server)
        yield RabbitMqEndpoint(
            HOST, port, VHOST, "cdc_reader", PASSWORD, f"https://{HOST}:{management}", tls=True,
            ca_file=str(c.authority), cert_file=str(c.certificate), key_file=str(c.key),
        )  # fmt: skip
    finally:
        server.stop()


def make_users(server: RabbitServer) -> None:
    """The virtual host, and users who may read one queue; everything but the tag; everything but a permission."""
    login = (server.user.user, server.user.password)
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    with httpx.Client(base_url=f"http://{server.host}:{server.management}/api/", auth=login) as api:

        def put(path: str, value: dict[str, Any]) -> None:
            api.put(path, json=value).raise_for_status()

        put("vhosts/shop%2Feu", {})
        put(f"permissions/shop%2Feu/{server.user.user}", everything)
        for name, tags, may in (
            ("cdc_reader", "management", {"configure": "^$", "write": "^$", "read": "^orders$"}),
            ("cdc_mover", "management", everything),
            ("untagged", "", everything),
            ("stranger", "management", None),
        ):
            put(f"users/{name}", {"password": PASSWORD, "tags": tags})
            if may:
                put(f"permissions/shop%2Feu/{name}", may)
        for queue, kind in (("orders", "stream"), ("others", "stream"), ("waiting", "classic")):
            put(f"queues/shop%2Feu/{queue}", {"durable": True, "arguments": {"x-queue-type": kind}})
            put("exchanges/shop%2Feu/all", {"type": "fanout", "durable": True})
            api.post(f"bindings/shop%2Feu/e/all/q/{queue}", json={"routing_key": ""}).raise_for_status()
        sent = {"properties": {}, "routing_key": "", "payload": "one", "payload_encoding": "string"}
        api.post("exchanges/shop%2Feu/all/publish", json=sent).raise_for_status()


def test_a_stream_is_read_over_tls_by_the_client_and_by_spark(secured: RabbitMqEndpoint, spark: SparkSession) -> None:
    transport = RabbitMqTransport(secured)
    transport.reach()
    assert transport.end_offsets(["orders"]) == {"orders": {0: 1}}
    assert [one.value for one in transport.records("orders")] == [b"one"]
    rows = StreamQueues(transport).read(spark, {"orders": {0: (0, 1)}}).collect()
    assert [bytes(row["value"]) for row in rows] == [b"one"]


def test_messages_are_moved_over_tls(secured: RabbitMqEndpoint) -> None:
    endpoint = replace(secured, user="cdc_mover", queue="waiting", stream="moved")
    transport = RabbitMqTransport(endpoint)
    assert transport.gathered(["shop"])["shop"].partitions == {0: (0, 1)}
    assert [one.value for one in transport.records("shop")] == [b"one"]


def test_a_connection_of_airflow_opens_it(secured: RabbitMqEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    point = secured
    extra = {name: getattr(point, name) for name in ("management", "ca_file", "cert_file", "key_file")}
    made = {"host": f"amqps://{HOST}", "port": point.port, "schema": VHOST, "login": point.user, "extra": extra}
    defined(monkeypatch, {**made, "password": PASSWORD})
    assert CdcRabbitMqHook("r").test_connection() == (True, "CDC RabbitMQ transport: connection works")
    defined(monkeypatch, {**made, "password": "wrong-secret"})
    works, said = CdcRabbitMqHook("r").test_connection()
    assert (works, "wrong-secret" in said) == (False, False)


def defined(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_R", json.dumps({"conn_type": "cdc_rabbitmq", **fields}))


Call = Callable[[RabbitMqTransport], object]


def read(transport: RabbitMqTransport) -> object:
    return transport.records("orders", {0: (0, 1)})


def bounds(transport: RabbitMqTransport) -> object:
    return transport.topic_states(["orders"])


def look(transport: RabbitMqTransport) -> object:
    return transport.topic_names()


@pytest.mark.parametrize(
    ("call", "changes", "said"),
    [
        (read, {"password": "wrong-secret"}, "Check login and password of the RabbitMQ connection"),
        (look, {"password": "wrong-secret"}, "HTTP 401.*Check login and password of the RabbitMQ connection"),
        (read, {"ca_file": "stranger.pem"}, "CERTIFICATE_VERIFY_FAILED.*ca_file of the RabbitMQ connection"),
        (look, {"ca_file": "stranger.pem"}, "CERTIFICATE_VERIFY_FAILED.*ca_file of the RabbitMQ connection"),
        (read, {"cert_file": "", "key_file": ""}, "client certificate"),
        (read, {"tls": False}, "Check `tls` and port"),
        (read, {"user": "stranger"}, "access to vhost.*Give the user of the RabbitMQ connection permissions"),
        (look, {"user": "stranger"}, "may see nothing in virtual host shop/eu.*permissions in that virtual host"),
        (bounds, {"user": "stranger"}, "may see nothing in virtual host shop/eu.*permissions in that virtual host"),
        (look, {"user": "untagged"}, "Not.management user.*the tag `management`"),
        (look, {"management": "plain"}, r"management interface does not answer.*`management` \(http or https"),
    ],
)  # fmt: skip
def test_each_refusal_is_one_clear_error_without_the_password(
    call: Call,
    changes: dict[str, Any],
    said: str,
    secured: RabbitMqEndpoint,
    certificates: Certificates,
) -> None:
    files = {"stranger.pem": str(certificates.stranger), "plain": secured.management.replace("https", "http")}
    given: dict[str, Any] = {name: files.get(str(value), value) for name, value in changes.items()}
    transport = RabbitMqTransport(replace(replace(secured, timeout=10), **given))
    with pytest.raises(TransportError, match=f"(?s){said}") as caught:
        call(transport)
    assert hides(caught.value)


def test_a_queue_that_the_user_may_not_read_is_named(secured: RabbitMqEndpoint) -> None:
    with pytest.raises(TransportError, match=r"read access to queue 'others'.*Give the user of the RabbitMQ") as caught:
        RabbitMqTransport(secured).records("others", {0: (0, 1)})
    assert hides(caught.value)


def test_files_that_cannot_be_read_are_named(secured: RabbitMqEndpoint) -> None:
    for call in (read, look):
        with pytest.raises(ConfigError, match=r"CA file /none\.pem cannot be read.*ca_file"):
            call(RabbitMqTransport(replace(secured, ca_file="/none.pem")))


def hides(error: CdcError) -> bool:
    text = f"{error} {error.to_json()}"
    return PASSWORD not in text and "wrong-secret" not in text
