"""Assets for tables that were proven equal to their source, so that other DAGs can be scheduled on proven data.

    DAG("marts", schedule=[Asset("cdc://shop/proven/shop.orders")])

runs after each recovery, repair or nightly check of pipeline `shop` that found every row of `shop.orders` equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from airflow.sdk import Asset, AssetAlias, Context

# one DAG recovers all pipelines, so its assets are known only while it runs: Airflow's word for that is an alias
PROVEN: Final = AssetAlias("cdc_proven")


def proven_asset(pipeline: str, table: str) -> Asset:
    """The asset of a pipeline's table ("shop.orders")."""
    return Asset(f"cdc://{pipeline}/proven/{table}")


def with_outlet(kwargs: dict[str, Any]) -> dict[str, Any]:
    """An operator's arguments, with the alias among its outlets."""
    return {**kwargs, "outlets": [*(kwargs.get("outlets") or ()), PROVEN]}


def announce(context: Context, pipeline: str, tables: Iterable[str], **facts: Any) -> None:
    """An event for the asset of each table; it counts if the task then succeeds."""
    events: Any = context["outlet_events"]
    for table in sorted(tables):
        extra = {"pipeline": pipeline, "table": table, "run_id": context["run_id"], **facts}
        events[PROVEN].add(proven_asset(pipeline, table), extra=extra)
