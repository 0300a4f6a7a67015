"""What people are shown of a connector's config holds no secret, and nothing else is hidden."""

from __future__ import annotations

import pytest

from airflow_cdc.core.secrets import MASK, mask_config, mask_text, secrets_of
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
