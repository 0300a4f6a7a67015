"""What people are shown of a connector's config holds no secret, and nothing else is hidden."""

from __future__ import annotations

import re
import time

import pytest

from airflow_cdc.core import secrets
from airflow_cdc.core.secrets import MASK, SPARK_REDACTION, mask_config, mask_text, secrets_of
from airflow_cdc.core.text import trace_excerpt

SECRET = [
    "database.password",
    "database.ssl.keystore.password",
    "schema.history.internal.producer.sasl.jaas.config",
    "aws.secret.access.key",
    "value.converter.basic.auth.user.info",
    "ssl.keystore.key",
    "api.key",
    "s3.access-key",
    "auth.token",
    "private_key",
]
PLAIN = [
    "key.converter",
    "key.converter.schemas.enable",
    "message.key.columns",
    "database.ssl.keystore",
    "ssl.keystore.location",
    "transforms.route.key.field.name",
    "topic.prefix",
    "transforms.key.type",
    "snapshot.mode",
]


@pytest.mark.parametrize("name", SECRET)
def test_secrets_are_masked(name: str) -> None:
    assert mask_config({name: "hunter22"}) == {name: MASK}
    assert secrets_of({name: "hunter22"}) == ("hunter22",)


@pytest.mark.parametrize("name", PLAIN)
def test_settings_that_diagnosis_needs_stay(name: str) -> None:
    assert mask_config({name: "value-1"}) == {name: "value-1"}
    assert secrets_of({name: "value-1"}) == ()


def test_a_reference_to_a_secret_is_not_one() -> None:
    config = {"database.password": "${file:/run/secrets/db:password}"}
    assert mask_config(config) == config


def test_a_salt_in_a_name_is_masked() -> None:
    masked = mask_config({"column.mask.hash.SHA-256.with.salt.CzQMA0cB5K": "shop.customers.email"})
    assert masked == {f"column.mask.hash.SHA-256.with.salt.{MASK}": "shop.customers.email"}


def test_passwords_inside_values_are_masked() -> None:
    url = "jdbc:mysql://app:hunter22@db:3306/shop?password=hunter23&useSSL=true"
    masked = mask_config({"connection.url": url})["connection.url"]
    assert "hunter2" not in masked
    assert masked.endswith("useSSL=true")


@pytest.mark.parametrize(
    "text",
    [
        "Access denied password=hunter22, host=db",
        'config {"database.password": "hunter22", "x": 1}',
        "sasl.jaas.config=... required username=\"u\" password='hunter22';",
        "http://ops:hunter22@connect:8083/",
        "plain hunter22 without a name",
        "jdbc:mysql://db/shop?user=app&pwd=hunter22&useSSL=true",
        "credential=hunter22",
        "ssl.key.passphrase: hunter22",
        "x-api_key=hunter22",
        "api-key: 'hunter22'",
        "Authorization: Bearer hunter22",
        "basic.auth.user.info=app:hunter22",
        "SharedAccessKey=hunter22;EntityPath=x",
    ],
)
def test_text_about_secrets_is_masked(text: str) -> None:
    masked = mask_text(text, ["hunter22"])
    assert "hunter22" not in masked
    assert MASK in masked


@pytest.mark.parametrize(
    "name", ["password", "passwd", "pwd", "credential", "passphrase", "secret", "api_key", "token"]
)
@pytest.mark.parametrize("shape", ["{}=hunter(2)2 next", '"{}": "hunter(2)2"', "db.{}: hunter(2)2"])
def test_a_secret_that_is_only_named_is_masked_in_every_text(name: str, shape: str) -> None:
    """Evidence, explained logs and error texts go through the same masker."""
    line = "io.debezium.DebeziumException: " + shape.format(name)
    assert "2)2" not in mask_text(line)
    assert "2)2" not in trace_excerpt(f"{line}\nCaused by: x: {line}")


def test_text_without_secrets_is_left_alone() -> None:
    text = "io.debezium.DebeziumException: The db history topic is missing at mysql-bin.000004:198"
    assert mask_text(text, ["", "abc"]) == text


@pytest.mark.parametrize(
    "text",
    [
        "ALTER USER x IDENTIFIED BY 'hunter''22' REPLACE",
        "IDENTIFIED WITH mysql_native_password AS '*HUNTER22' x",
        "SET PASSWORD FOR x = PASSWORD('hunter22')",
        "ALTER ROLE x PASSWORD 'hunter22'",
        "mysql --password hunter22 --host x",
        r"{\"password\": \"a\\ hunter22\", \"a\": 1}",
        r'{"password": "a\" hunter22", "b": 2}',
        'a text that ends in its value: password="hunter 22, hunter22',
        "Authorization: AWS4-HMAC-SHA256 Credential=hunter22, SignedHeaders=host, Signature=hunter22",
        '"Authorization": "Negotiate hunter22", "x": 1',
        "Proxy-Authorization: Digest username=x, response=hunter22",
        "sent with Bearer eyJhbGciOiJIUzI1NiJ9.hunter22",
        "https://a.blob.core.windows.net/c?sv=1&sig=hunter22&se=2",
        "https://b.s3.amazonaws.com/k?X-Amz-Signature=hunter22&X-Amz-Date=1",
        "https://storage.googleapis.com/b/o?X-Goog-Signature=hunter22",
        "Cookie: session=hunter22; a=hunter22",
        "set-cookie: id=hunter22; Path=/",
        "http://u:hunter22/@x@host:9200/x",
        "-----BEGIN PRIVATE KEY-----\nMIIhunter22\n-----END PRIVATE KEY----- tail",
        "-----BEGIN RSA PRIVATE KEY-----\\nMIIhunter22 and no end",
        "adls.account-key=hunter22",
        "fs.azure.account.key.a.dfs.core.windows.net=hunter22",
        "header.Authorization=Basic hunter22",
    ],
)
def test_what_is_written_like_a_secret_is_masked_whatever_it_is(text: str) -> None:
    masked = mask_text(text).lower()
    assert "hunter" not in masked
    assert MASK in masked


@pytest.mark.parametrize(
    "text", ["http://rabbit:15672/api/nodes/rabbit@host", "jdbc:mysql://db:3306/shop?user=a@b", "mysql://root@db/x"]
)
def test_an_address_without_a_password_stays(text: str) -> None:
    assert mask_text(text) == text


def test_a_secret_of_this_process_is_masked_where_nothing_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, in an address and in JSON; the newest ones, however many there were."""
    monkeypatch.setattr(secrets, "_known", {})
    secrets.remember(["p/ss\"w rd'", "abc"])
    for text in ("refused p/ss\"w rd' here", "http://h/p%2Fss%22w%20rd%27", '{"x": "p/ss\\"w rd\'"}'):
        assert "w" not in mask_text(text).replace("here", "")
    assert mask_text("abc") == "abc"
    secrets.remember(f"secret-{n}" for n in range(3_000))
    assert mask_text("secret-2999 x") == f"{MASK} x"
    assert len(secrets._known) == 2_000


@pytest.mark.parametrize(
    "part",
    [
        *("a", "pwd", "password", "-", "--a ", "://a:b", "://a:b@", 'password="', "password='", 'password="\\'),
        *('password=\\"', "\\", " ", "identified by ", "authorization: ", "-----BEGIN A-----", "sig=", "bearer "),
        *("access.key.", "token=", "'", "cookie=\\'", "password ("),
    ],
)
def test_the_masker_takes_no_longer_than_the_text_is_long(part: str) -> None:
    """It runs in the event loop that watches every pipeline: a word of 40 kB cost two seconds, and twice of it eight."""

    def seconds(length: int) -> float:
        text, began = part * (length // len(part)), time.process_time()
        mask_text(text)
        return time.process_time() - began

    assert min(seconds(40_000) for _ in range(3)) < 0.4
    assert min(seconds(160_000) for _ in range(2)) < 1.6


@pytest.mark.parametrize(
    "name",
    [
        "spark.sql.catalog.lake.adls.sas-token.acct",
        "spark.sql.catalog.lake.adls.connection-string",
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net",
        "spark.hadoop.fs.gs.auth.service.account.private.key.id",
        "spark.sql.catalog.lake.header.Authorization",
        "spark.sql.catalog.lake.s3.access-key-id",
        "spark.sql.catalog.lake.uri",
        *(f"spark.x.{name}" for name in SECRET if name != "ssl.keystore.key"),
    ],
)
def test_spark_hides_what_the_masker_hides(name: str) -> None:
    """In its UI and its event log; Java reads the expression as Python does."""
    assert re.search(SPARK_REDACTION, name)


def test_what_is_too_short_to_be_masked_pushes_out_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_known", {})
    secrets.remember(f"secret-{n}" for n in range(2_000))
    secrets.remember(["a", "ab", "abc"])
    assert mask_text("secret-0 x") == f"{MASK} x"
