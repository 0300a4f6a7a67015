"""Whose token lets a command change a pipeline: Airflow's own token, its own roles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from airflow.api_fastapi.app import create_auth_manager
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.revoked_token import RevokedToken

from airflow_cdc.cli.permission import TOKEN, changer
from airflow_cdc.core.errors import ConfigError, NotAllowedError
from airflow_cdc.core.pipeline import AirflowSpec
from tests.unit.builders import PIPELINE


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
    assert changer(PIPELINE).startswith("ann (")


def test_who_may_only_look_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, token("viewer"))
    with pytest.raises(NotAllowedError, match="user ann may not trigger cdc_recovery") as refused:
        changer(PIPELINE)
    assert refused.value.exit_status == 2


def test_a_token_that_airflow_did_not_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    head, body, _ = token("admin").split(".")
    for forged in ("x", f"{head}.{body}.AAAA", f"{head}.{body}."):
        monkeypatch.setenv(TOKEN, forged)
        with pytest.raises(NotAllowedError, match="does not accept the token") as refused:
            changer(PIPELINE)
        assert forged not in str(refused.value)


def test_without_a_token_the_way_to_one_is_named() -> None:
    with pytest.raises(NotAllowedError, match=r"AIRFLOW_CLI_TOKEN.*POST /auth/token.*cli_users = shell"):
        changer(PIPELINE)


def test_a_shell_is_enough_where_the_configuration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "shell")
    assert "@" in changer(PIPELINE)
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "anybody")
    with pytest.raises(ConfigError, match="Write token or shell"):
        changer(PIPELINE)


def test_a_pipeline_with_dags_of_its_own_asks_for_the_right_to_those(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(PIPELINE, airflow=AirflowSpec(own_dags=True))
    monkeypatch.setenv(TOKEN, token("user"))

    def only(allowed: str) -> None:
        def is_authorized_dag(
            _self: Any, *, method: str, user: Any, access_entity: Any = None, details: Any = None
        ) -> bool:
            return bool(details.id == allowed)

        monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)

    only("cdc_recovery")
    with pytest.raises(NotAllowedError, match=f"may not trigger cdc_recovery__{own.name}"):
        changer(own)
    assert changer(PIPELINE).startswith("ann (")
    only(f"cdc_recovery__{own.name}")
    assert changer(own).startswith("ann (")
    with pytest.raises(NotAllowedError, match=r"may not trigger cdc_recovery\."):
        changer(PIPELINE)
