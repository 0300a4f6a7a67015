"""An auth manager for a test: Airflow's own sign-in and roles, and besides them an answer per DAG.

Auth managers that people run (FAB, Keycloak) hold such answers themselves; Airflow's simple one knows roles only.
"""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

TEAM, OTHERS = "ann", "bob"
OWN = "__shop"


class PerTeamAuthManager(SimpleAuthManager):
    """ann has the DAGs of pipeline shop alone; bob has all others."""

    def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        """What the role says, and of a single DAG whose it is."""
        by_role = super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
        dag_id = str(getattr(details, "id", None) or "")
        if not by_role or not dag_id or user.get_name() not in (TEAM, OTHERS):
            return bool(by_role)
        return dag_id.endswith(OWN) is (user.get_name() == TEAM)
