"""Whose token lets a command change a pipeline: Airflow's own token, its own roles."""

from __future__ import annotations

import pytest
from airflow.api_fastapi.app import create_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.revoked_token import RevokedToken

from airflow_cdc.cli.permission import TOKEN, changer
from airflow_cdc.core.errors import ConfigError, NotAllowedError


@pytest.fixture(autouse=True)
def airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Airflow that signs tokens; no token was revoked, which its database would say."""
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "0" * 64)
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "token")
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setattr(RevokedToken, "is_revoked", lambda _jti: False)


def token(role: str) -> str:
    """What Airflow gives to the user ann when she signs in."""
    return str(create_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role=role)))


@pytest.mark.parametrize("role", ["user", "op", "admin"])
def test_who_may_trigger_the_recovery_may_and_is_named(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, token(role))
    assert changer().startswith("ann (")


def test_who_may_only_look_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, token("viewer"))
    with pytest.raises(NotAllowedError, match="user ann may not trigger cdc_recovery") as refused:
        changer()
    assert refused.value.exit_status == 2


def test_a_token_that_airflow_did_not_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    head, body, _ = token("admin").split(".")
    for forged in ("x", f"{head}.{body}.AAAA", f"{head}.{body}."):
        monkeypatch.setenv(TOKEN, forged)
        with pytest.raises(NotAllowedError, match="does not accept the token") as refused:
            changer()
        assert forged not in str(refused.value)


def test_without_a_token_the_way_to_one_is_named() -> None:
    with pytest.raises(NotAllowedError, match=r"AIRFLOW_CLI_TOKEN.*POST /auth/token.*cli_users = shell"):
        changer()


def test_a_shell_is_enough_where_the_configuration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "shell")
    assert "@" in changer()
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "anybody")
    with pytest.raises(ConfigError, match="Write token or shell"):
        changer()
