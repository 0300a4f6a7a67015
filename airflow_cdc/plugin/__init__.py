"""The page "CDC pipelines" in Airflow's web server. Found through the entry point group `airflow.plugins`.

Every process of Airflow imports this: so the web application is built only at the first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.plugins_manager import AirflowPlugin

from airflow_cdc.airflow_version import check_airflow
from airflow_cdc.names import PAGE_PREFIX

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

check_airflow()

PREFIX = PAGE_PREFIX


class LazyApp:
    """The application, as a web server calls it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from airflow_cdc.plugin.app import page

        await page()(scope, receive, send)


class CdcPlugin(AirflowPlugin):
    """Mounts the page at `/cdc` and names it in Airflow's menu."""

    name = "airflow_cdc"
    fastapi_apps = [{"app": LazyApp(), "url_prefix": PREFIX, "name": "CDC pipelines"}]  # noqa: RUF012 - Airflow's form
    external_views = [  # noqa: RUF012 - Airflow's form
        {"name": "CDC pipelines", "href": f"{PREFIX}/", "destination": "nav", "category": "browse"}
    ]
