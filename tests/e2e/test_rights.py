"""Rights per team on a real Airflow: who may recover which pipeline, by its REST interface and by the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from airflow_cdc.dags import _factory
from stack.airflow import AirflowServer, AirflowSettings, start_airflow
from stack.process import end
from stack.rest import RestError
from tests.e2e.per_team import OTHERS, TEAM
from tests.paths import ROOT
from tests.unit.conftest import REGISTRY

pytestmark = pytest.mark.timeout(600)
SHOP = REGISTRY + "    airflow: {own_dags: true}\n"
BANK = REGISTRY.replace("pipelines:", "").replace("shop", "bank")
RUN_SECONDS = 180.0


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowServer]:
    """An Airflow with two pipelines, shop with DAGs of its own, and a user of each team. Nothing else runs."""
    folder = tmp_path_factory.mktemp("rights")
    (folder / "logs").mkdir()
    (folder / "pipelines.yaml").write_text(SHOP + BANK)
    settings = AirflowSettings(
        Path(_factory.__file__).parent,
        env={
            "AIRFLOW__CDC__REGISTRY": str(folder / "pipelines.yaml"),
            "AIRFLOW__CDC__REPORT_DIR": str(folder / "reports"),
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__CORE__AUTH_MANAGER": "tests.e2e.per_team.PerTeamAuthManager",
        },
        users={TEAM: "op", OTHERS: "op"},
    )
    server = start_airflow(folder, folder / "logs", settings)
    try:
        for dag_id in ("cdc_recovery", "cdc_recovery__shop", "cdc_apply__shop", "cdc_apply__bank"):
            server.client().wait_dag(dag_id)
        yield server
    finally:
        end(*server.children.values())


def page(server: AirflowServer, user: str) -> httpx.Client:
    """The page's address, signed in as this user."""
    token = server.client(user).token()
    return httpx.Client(base_url=f"{server.url}/cdc", headers={"Authorization": f"Bearer {token}"}, timeout=60)


def test_a_team_triggers_its_own_recovery_and_no_other(airflow: AirflowServer) -> None:
    team = airflow.client(TEAM)
    run_id = team.trigger("cdc_recovery__shop", {"pipeline": "shop"})
    # no connection is defined: the first step says so, and not that it is the wrong DAG
    assert team.wait_run("cdc_recovery__shop", run_id, timeout=RUN_SECONDS) == "failed"
    assert "shop_mysql" in team.log("cdc_recovery__shop", run_id, "diagnose")
    with pytest.raises(RestError) as refused:
        team.trigger("cdc_recovery", {"pipeline": "bank"})
    assert refused.value.status == 403


def test_nobody_recovers_it_by_the_shared_dag(airflow: AirflowServer) -> None:
    others = airflow.client(OTHERS)
    run_id = others.trigger("cdc_recovery", {"pipeline": "shop"})
    assert others.wait_run("cdc_recovery", run_id, timeout=RUN_SECONDS) == "failed"
    assert "cdc_recovery does nothing for it" in others.log("cdc_recovery", run_id, "diagnose")
    with pytest.raises(RestError) as refused:
        others.trigger("cdc_recovery__shop", {"pipeline": "shop"})
    assert refused.value.status == 403


def test_its_own_dag_recovers_no_other_pipeline(airflow: AirflowServer) -> None:
    with pytest.raises(RestError) as refused:
        airflow.client(TEAM).trigger("cdc_recovery__shop", {"pipeline": "bank"})
    assert refused.value.status == 400


def test_the_page_follows(airflow: AirflowServer) -> None:
    with page(airflow, TEAM) as team, page(airflow, OTHERS) as others:
        assert ("pipelines/shop" in team.get("/").text, "pipelines/bank" in team.get("/").text) == (True, False)
        assert ("pipelines/shop" in others.get("/").text, "pipelines/bank" in others.get("/").text) == (False, True)
        assert [one.get("/pipelines/shop").status_code for one in (team, others)] == [200, 403]
        form = team.get("/pipelines/shop/recover").text
        token = re.search(r'name="token" value="([0-9a-f]+)"', form)
        assert token is not None
        sent = team.post("/pipelines/shop/recover", data={"token": token[1], "strategy": "auto"})
        assert sent.status_code == 303
        assert "/dags/cdc_recovery__shop/runs/" in sent.headers["location"]
        assert others.post("/pipelines/shop/recover", data={"token": token[1]}).status_code == 403
