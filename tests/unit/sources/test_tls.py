"""TLS to a database: what settings mean, that a named authority is never ignored, what the doctor says of the rest."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.sources.errors import SourceTlsError
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.session import client_options
from airflow_cdc.sources.tls import Mode, mode_of, tls_check
from airflow_cdc.spark_apps.adapters import mysql_jdbc
from airflow_cdc.spark_apps.adapters.mysql_jdbc import jdbc_options

CA = {"ca": "/ca.pem"}


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        (None, "preferred"),
        ({}, "preferred"),
        ({"mode": "", "ca": None}, "preferred"),
        ({"mode": "REQUIRED"}, "required"),
        ({"cert": "/c.pem"}, "required"),
        (CA, "verify_identity"),
        ({**CA, "mode": "verify-ca"}, "verify_ca"),
        # the form of a connection fills in preferred
        ({**CA, "mode": "preferred"}, "verify_ca"),
        ({**CA, "mode": "required"}, "verify_ca"),
        ({**CA, "mode": "disabled"}, "disabled"),
    ],
)
def test_an_authority_that_is_named_is_used(given: dict[str, Any] | None, mode: str) -> None:
    assert mode_of(given, "db") == mode


@pytest.mark.parametrize("given", [{"mode": "on"}, {"mode": 7}, {"verify": True}])
def test_what_is_not_known_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="unknown ssl"):
        mode_of(given, "db")


def test_the_client_verifies_as_much_as_the_mode_says(tmp_path: Path) -> None:
    assert client_options(None, "db") == {}
    assert client_options({"mode": "disabled"}, "db") == {"ssl_disabled": True}
    context = client_options({"mode": "required"}, "db")["ssl"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    for mode in ("preferred", "verify_identity"):
        with pytest.raises(SourceTlsError, match="cannot be read"):
            client_options({"ca": str(tmp_path / "none.pem"), "mode": mode}, "db")


@pytest.mark.parametrize(
    ("mode", "cipher", "state", "says"),
    [
        (Mode.PREFERRED, "", "warn", "no TLS: who is between can read the password and the rows"),
        (Mode.DISABLED, "", "warn", "no TLS"),
        (Mode.PREFERRED, "AES", "warn", "TLS (AES), but nothing proves which server answers"),
        (Mode.REQUIRED, "AES", "warn", "nothing proves which server answers"),
        (Mode.VERIFY_CA, "AES", "warn", "its host name is not verified"),
        (Mode.VERIFY_IDENTITY, "AES", "ok", "certificate and host name verified"),
    ],
)
def test_the_doctor_says_what_is_not_verified(mode: Mode, cipher: str, state: str, says: str) -> None:
    there = tls_check("shop", "db.example", mode, cipher)
    assert (there.state, says in there.found) == (state, True)
    assert ("ssl_ca" in there.todo) is (state == "warn")
    assert tls_check("shop", "127.0.0.1", mode, cipher).state == "ok"


@pytest.mark.parametrize(
    ("given", "offers", "wanted"),
    [
        (None, True, {"sslMode": "trust"}),
        (None, False, {"sslMode": "disable", "allowPublicKeyRetrieval": "true"}),
        ({"mode": "disabled"}, True, {"sslMode": "disable", "allowPublicKeyRetrieval": "true"}),
        ({"mode": "required"}, True, {"sslMode": "trust"}),
        ({**CA, "mode": "preferred"}, True, {"sslMode": "verify-ca", "serverSslCert": "/ca.pem"}),
        (CA, True, {"sslMode": "verify-full", "serverSslCert": "/ca.pem"}),
    ],
)
def test_spark_takes_no_key_on_trust_where_there_is_tls(
    given: dict[str, Any] | None, offers: bool, wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_jdbc, "_offers_tls", lambda _: offers)
    source = MySqlSource(MySqlEndpoint("db", 3306, "u", "p", ssl=given))
    query = jdbc_options(source, "SET @a = 1", 10)["url"].partition("?")[2]
    got = dict(part.split("=", 1) for part in query.split("&"))
    names = ("sslMode", "serverSslCert", "allowPublicKeyRetrieval")
    assert {name: got[name] for name in names if name in got} == wanted
