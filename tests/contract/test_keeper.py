"""What the keeper of Iceberg tables decides from a table's metadata, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from airflow_cdc.core.pipeline import MaintenancePolicy
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.adapters.iceberg_keeper import IcebergKeeper, to_keep
from airflow_cdc.spark_apps.tidied import Tidied
from tests.contract.lakes import append

NO_SPARK = NOT_ASKED = cast("Any", None)
STAMP = Stamp(1, {"file": "mysql-bin.000007"}, {"shop.orders": TopicOffsets("T1", {0: 5})}).to_summary()


def test_a_table_that_no_recovery_has_made_yet_is_left_alone(lake: Lake) -> None:
    done = IcebergKeeper(lake).tidy(NO_SPARK, ("shop", "orders"), MaintenancePolicy(), datetime.now(UTC), NOT_ASKED)
    assert done == Tidied()


def test_a_table_whose_versions_are_all_young_is_not_expired(shop: Lake) -> None:
    policy = MaintenancePolicy(compact=False, expire_after=3600)
    assert IcebergKeeper(shop).tidy(NO_SPARK, ("shop", "orders"), policy, datetime.now(UTC), NOT_ASKED) == Tidied()


@pytest.mark.parametrize("above", [0, 1, 3])
def test_inv_15_versions_back_to_the_newest_stamp_are_kept(shop: Lake, above: int) -> None:
    append(shop, "shop", "orders", 1)
    assert to_keep(shop.table("shop", "orders").metadata) == 1  # no stamp: there is nothing to keep them for
    append(shop, "shop", "orders", 2, summary=STAMP)
    for number in range(above):
        append(shop, "shop", "orders", 10 + number)
    assert to_keep(shop.table("shop", "orders").metadata) == above + 1
