"""Who changes a pipeline by a command: an Airflow user who may trigger the recovery, told by a token.

Whoever owns Airflow's database could do without; the check is for people who were given a shell for something else, and it
puts a name of Airflow's into the audit.
"""

from __future__ import annotations

import asyncio
import os
import socket

from airflow.api_fastapi.app import create_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from jwt import InvalidTokenError

from airflow_cdc.cli.run import shell_user
from airflow_cdc.config import settings
from airflow_cdc.core.errors import NotAllowedError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.names import RECOVERY_DAG_ID, dag_id_for

TOKEN = "AIRFLOW_CLI_TOKEN"  # noqa: S105 - the variable's name, as airflowctl reads it
SHELL = "shell"


def changer(pipeline: Pipeline) -> str:
    """The name to be kept of whoever gives this command. Raises NotAllowedError unless they may trigger its recovery.

    With `[cdc] cli_users = shell` everybody with a shell may, and is named by that.
    """
    shell = f"{shell_user()}@{socket.gethostname()}"
    if settings.cli_users() == SHELL:
        return shell
    user = _user(os.environ.get(TOKEN, ""))
    dag_id = dag_id_for(pipeline, RECOVERY_DAG_ID)
    if not _may_trigger(user, dag_id):
        raise NotAllowedError(
            f"Airflow user {user.get_name()} may not trigger {dag_id}",
            todo="Nothing was changed. Use the token of a user who may trigger it.",
        )
    return f"{user.get_name()} ({shell})"


def _user(token: str) -> BaseUser:
    where = f"environment variable {TOKEN}"
    if not token:
        raise NotAllowedError(
            "this command changes a pipeline and needs the token of an Airflow user",
            where=where,
            todo="Set it to a token (POST /auth/token of Airflow), or [cdc] cli_users = shell in airflow.cfg.",
        )
    try:
        # not initialised: that is for the server, and may write its users' passwords
        return asyncio.run(create_auth_manager().get_user_from_token(token))
    except InvalidTokenError:
        raise NotAllowedError(
            "Airflow does not accept the token", where=where, todo="Get a new one (POST /auth/token of Airflow)."
        ) from None


def _may_trigger(user: BaseUser, dag_id: str) -> bool:
    details = DagDetails(id=dag_id)
    return create_auth_manager().is_authorized_dag(
        method="POST", user=user, access_entity=DagAccessEntity.RUN, details=details
    )
