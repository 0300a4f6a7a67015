"""A recovery whose steps that read and write rows are struck one fault after the other; it ends in MATCH all the same."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import connector as connector_steps
from airflow_cdc.flows import reset_offset, watermark
from airflow_cdc.flows.close import close
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.publish import publish
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.verify import verify
from stack.object_store import ObjectStore
from tests.breaks.conftest import LakeAndSpark, MakeWorld
from tests.breaks.store_proxy import StoreProxy
from tests.breaks.struck import is_right
from tests.breaks.test_connections import reset
from tests.breaks.test_disk_and_store import LASTING, PASSING, impatient, refusing
from tests.breaks.worlds import Servers, add_catalog, in_s3, lake_in
from tests.integration.mariadb.support import purge

__all__ = ["impatient"]  # a fixture

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.usefixtures("impatient")
def test_a_recovery_whose_steps_are_struck(
    servers: Servers,
    local: LakeAndSpark,
    followed: MakeWorld,
    store: tuple[ObjectStore, StoreProxy],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lake = lake_in("struck", tmp_path_factory.mktemp("catalog"), in_s3(store[0]))
    add_catalog(local.spark, lake)
    strikes = followed("recovery", lake)
    world: Any = strikes.world
    world.connector.stop(world.database)
    world.change()
    purge(world.server)
    world.connector.resume(world.database)
    world.failure()

    run = replace(world.base, run_id=f"rec-{uuid.uuid4().hex[:6]}")
    open_recovery(run, Decision.from_json(decide(run)))
    connector_steps.stop(run)
    watermark.fence_and_watermark(run)
    source = [reset(servers.source, count) for count in (20, 3_000, 60_000)]
    broker = [reset(servers.broker, count) for count in (600, 3_000)]
    refused = [refusing(store[1], name, made) for name, made in (PASSING | LASTING).items()]
    strikes.strike_step(run, "recover", recover, [*source, *refused])
    reset_offset.reset_offset(run)
    connector_steps.resume(run)
    world.change()
    proven = strikes.strike_step(run, "verify", verify, [*source, *broker, *refused])
    assert proven["verdict"] == "MATCH", proven
    strikes.strike_step(run, "publish", lambda same, _: publish(same), refused)
    close(run)
    world.apply("after")
    is_right(world)
