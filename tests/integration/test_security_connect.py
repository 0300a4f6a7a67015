"""A real Connect worker with an https listener and logins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import pkcs12

from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint, KafkaConnect
from airflow_cdc.connectors.kafka_connect.http import ConnectUnreachableError
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.poll import NotYet, poll_until
from stack import fetch
from stack.connect import start_connect
from stack.process import end
from tests.integration.certificates import Certificates

pytestmark = pytest.mark.slow

PASSWORD = "Pa55word-of-connect"
LOGINS = """
KafkaConnect {{
  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required file="{}";
}};
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, kafka: str) -> Iterator[str]:
    """The worker's address, once it answers to who logs in."""
    fetch.fetch_all(["kafka", "debezium", "connect-auth"])
    folder = tmp_path_factory.mktemp("connect")
    (folder / "logins").write_text(f"cdc={PASSWORD}\n")
    (folder / "jaas.conf").write_text(LOGINS.format(folder / "logins"))
    store = "listeners.https.ssl."
    more = {
        f"{store}keystore.location": str(keystore(folder, certificates)),
        f"{store}keystore.type": "PKCS12",
        f"{store}keystore.password": "store-pass",
        f"{store}key.password": "store-pass",
        "rest.advertised.listener": "https",
        "group.id": "cdc-secured",
        **{f"{name}.storage.topic": f"secured_{name}" for name in ("config", "offset", "status")},
    }
    worker = start_connect(folder, folder, kafka, more=more, jaas=folder / "jaas.conf")
    try:
        poll_until(lambda: answers(worker.url, certificates), timeout=240, interval=1.0, what="Connect to answer")
        yield worker.url
    finally:
        end(worker.child)


def keystore(folder: Path, certificates: Certificates) -> Path:
    key = serialization.load_pem_private_key(certificates.key.read_bytes(), None)
    assert isinstance(key, RSAPrivateKey)
    found = x509.load_pem_x509_certificate(certificates.certificate.read_bytes())
    secret = serialization.BestAvailableEncryption(b"store-pass")
    path = folder / "server.p12"
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"server", key, found, None, secret))
    return path


def answers(url: str, certificates: Certificates) -> bool:
    with closing(client(url, certificates)) as connect:
        try:
            return connect.names() == ()
        except ConnectorError as error:
            raise NotYet(str(error)) from None


def client(url: str, certificates: Certificates, password: str = PASSWORD, ca: Path | None = None) -> KafkaConnect:
    verify = str(ca or certificates.authority)
    return KafkaConnect(ConnectEndpoint(url, "cdc", password, verify=verify, retry_for=0.5))


def test_connect_answers_over_tls_to_who_logs_in(url: str, certificates: Certificates) -> None:
    with closing(client(url, certificates)) as connect:
        assert connect.root()["kafka_cluster_id"]


def test_a_wrong_password_is_one_clear_error_that_does_not_hold_it(url: str, certificates: Certificates) -> None:
    with closing(client(url, certificates, "wrong-secret")) as connect, pytest.raises(ConnectorError) as caught:
        connect.names()
    assert caught.value.status == 401
    assert "login" in caught.value.todo
    assert "wrong-secret" not in json.dumps(caught.value.to_json())


def test_another_authority_is_not_trusted(url: str, certificates: Certificates) -> None:
    with (
        closing(client(url, certificates, ca=certificates.stranger)) as connect,
        pytest.raises(ConnectorError) as caught,
    ):
        connect.root()
    assert "not trusted" in caught.value.what
    assert not isinstance(caught.value, ConnectUnreachableError)
