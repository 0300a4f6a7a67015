"""Assets for tables that were proven equal to their source, so that other DAGs can be scheduled on proven data.

    DAG("marts", schedule=[Asset("cdc://shop/proven/shop.orders")])

runs after each recovery, repair or nightly check of pipeline `shop` that found every row of `shop.orders` equal. A name
that a URI can't hold is percent-encoded, so use `proven_asset`: Airflow refuses a URI that is not ASCII, and cuts `a#b` to `a`.

Only a task whose failure does no harm makes the events. Airflow's API server records them one by one while it ends the task, and
the worker asks again after five seconds; with SQLite both requests are then under way, the second meets the assets of the first
(`UNIQUE constraint failed: asset.name, asset.uri`), and the task is failed. As the end of `publish` that failed a recovery whose
tables were all published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc.names import uri_part

# one DAG recovers all pipelines, so its assets are known only while it runs: Airflow's word for that is an alias
PROVEN: Final = AssetAlias("cdc_proven")
PUBLISH_TASK: Final = "publish"
VERDICT_TASK: Final = "verdict"
# by whom a table was proven → the task whose result names such tables, and the key of the result
PROVEN_BY: Final = {"recovery": (PUBLISH_TASK, "published"), "check": (VERDICT_TASK, "proven")}


def proven_asset(pipeline: str, table: str) -> Asset:
    """The asset of a pipeline's table ("shop.orders")."""
    return Asset(f"cdc://{pipeline}/proven/{uri_part(table)}")


def with_outlet(kwargs: dict[str, Any]) -> dict[str, Any]:
    """An operator's arguments, with the alias among its outlets."""
    return {**kwargs, "outlets": [*(kwargs.get("outlets") or ()), PROVEN]}


def announce(context: Context, pipeline: str) -> list[str]:
    """An event for each table that this run has proven; returns the tables. It counts if the task then succeeds."""
    events: Any = context["outlet_events"]
    tables: list[str] = []
    for by, (task, key) in PROVEN_BY.items():
        for table in sorted((context["ti"].xcom_pull(task_ids=task) or {}).get(key) or ()):
            extra = {"pipeline": pipeline, "table": table, "run_id": context["run_id"], "by": by}
            events[PROVEN].add(proven_asset(pipeline, table), extra=extra)
            tables.append(table)
    return tables


class AnnounceOperator(BaseOperator):
    """An asset event (`proven_asset`) for each table that the run has proven; skipped if there is none.

    Use with `.as_teardown(on_failure_fail_dagrun=False)`, so that a failure to record events does not fail the run.

    :param pipeline: the pipeline's name in the registry (templated).
    """

    template_fields: Sequence[str] = ("pipeline",)

    def __init__(self, *, pipeline: str, **kwargs: Any) -> None:
        super().__init__(**with_outlet(kwargs))
        self.pipeline = pipeline

    def execute(self, context: Context) -> list[str]:
        tables = announce(context, self.pipeline)
        if not tables:
            raise AirflowSkipException("this run has proven no table")
        return tables
