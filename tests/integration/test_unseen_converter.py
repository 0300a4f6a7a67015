"""A connector without converters of its own on a worker whose converter is not JSON: nothing but its records shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.errors import ConfigError, UnreadableEventsError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.decisions.diagnosis.diagnose import diagnose
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.doctor import doctor_pipeline
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.kinds import rules_for
from airflow_cdc.sinks.iceberg.client import Lake
from stack import fetch
from stack.connect import DEBEZIUM_CLASS, ConnectWorker, ready, start_connect
from tests.integration.followed_mysql import FollowedMySql
from tests.integration.mariadb.recovered import connector_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.check import Check
    from stack import Stack
    from stack.mysql import MySqlServer

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

TEXT = "org.apache.kafka.connect.storage.StringConverter"
SIDES = ("key", "value")
WORKER = {
    "group.id": "text",
    **{f"{part}.storage.topic": f"text_{part}s" for part in ("config", "offset", "status")},
    **{f"{side}.converter": TEXT for side in SIDES},
}


@pytest.fixture(scope="module")
def text_worker(servers: Stack, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    """A worker whose converters write text."""
    fetch.fetch_all(["kafka", "debezium"])
    worker = start_connect(tmp_path_factory.mktemp("text"), servers.logs, kafka, more=WORKER, name="connect-text")
    with ready(worker):
        yield worker


@dataclass(slots=True)
class Followed(FollowedMySql):
    """A MySQL database that a connector without converters of its own follows."""

    def follow(self, own: dict[str, str]) -> None:
        config = connector_config(self.server, self.database, self.kafka, own)
        self.connector.create(self.database, config)
        self.wait_read()
        self.mirror(self.database)

    def events(self) -> list[Check]:
        """What the doctor sees in the topics."""
        return [one for one in doctor_pipeline(self.base) if one.name == "events"]

    def problem(self) -> str:
        return diagnose(observe(self.base, watch=0), rules_for(self.base.pipeline)).code

    def set(self, advice: str) -> dict[str, str]:
        """Do what a sentence "Set name=value, … on the connector" says, to the letter."""
        (listed,) = re.findall(r"Set (.*?) on the connector", advice)
        settings = dict(one.split("=", 1) for one in listed.split(", "))
        before = self.connector.raw_config(self.database)
        self.connector.change_config(self.database, before, {**before, **settings})
        return settings


@pytest.fixture
def followed(  # noqa: PLR0917
    text_worker: ConnectWorker,
    mysql: MySqlServer,
    kafka: str,
    spark: SparkSession,
    lake_properties: dict[str, str],
    databases: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Followed]:
    name = databases()
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(40))")
    made = Followed(mysql, spark, Lake("lake", lake_properties), kafka, text_worker.url, tmp_path, name, ("t",))
    made.set_up_mysql()
    with closing(made.connector):
        made.follow(
            {
                "connector.class": DEBEZIUM_CLASS,
                "database.ssl.mode": "disabled",
                "driver.allowPublicKeyRetrieval": "true",
                **dict.fromkeys(("value.converter", "value.converter.replace.null.with.default"), ""),
            }
        )
        yield made
        made.connector.delete(name)


def test_inv_41_42_43_a_workers_converter_is_seen_stops_the_first_batch_and_is_put_right_by_the_advice(
    followed: Followed,
) -> None:
    """Before: the doctor found no fault, the first load said MATCH, every record became a dead letter, HEALTHY."""
    run = followed.base
    seen = followed.events()
    assert {one.state for one in seen} == {"bad"}
    assert all("StringConverter" in one.found for one in seen)
    decision = decide(run, "full_snapshot")
    assert decision["plan"]["refused"]
    assert "value.converter" in decision["plan"]["reason"]
    with pytest.raises(ConfigError, match="StringConverter"):
        open_recovery(run, replace(Decision.from_json(decision), strategy="full_snapshot"))
    assert run.clients.control.facts().recovery is None
    assert followed.connector.state(followed.database).running

    followed.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    heads = followed.heads()
    with pytest.raises(UnreadableEventsError, match=r"StringConverter.*key\.converter="):
        followed.apply("apply-1")
    assert followed.heads() == heads
    assert followed.problem() == "TABLE_NEEDS_REREAD"

    assert {f"{side}.converter" for side in SIDES} <= followed.set(seen[0].todo).keys()
    assert "bad" not in {one.state for one in followed.events()}
    assert followed.recover("rec-1")["verify"]["verdict"] == "MATCH"
    followed.execute("INSERT INTO t VALUES (3, 'b')", "UPDATE t SET v = 'c' WHERE id = 1")
    followed.apply("apply-2")
    assert followed.differences("t", ("id", "v")) == ([], [])
    assert followed.problem() == "HEALTHY"
    (rows,) = [one for one in followed.events() if f"{followed.database}.t" in one.found]
    assert (rows.state, "a change event as JSON" in rows.found) == ("ok", True)
