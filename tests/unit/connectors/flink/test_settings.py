"""A job's keys in pipelines.yaml, and the options of its sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.flink.capture import FlinkCapture, flat
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.kind import FlinkSettings
from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.secrets import mask_config
from airflow_cdc.transports.direct import DirectEndpoint, DirectTransport
from tests.unit.tables import column, table

SHOP = {"connector": "mysql-cdc", "database-name": "shop", "table-name": "ord.*", "password": "hush-1"}


def capture(*sources: dict[str, str]) -> FlinkCapture:
    return FlinkCapture.from_config(flat("shop", sources))


def test_options_of_several_sources_are_kept_apart_and_shown_without_secrets() -> None:
    config = flat("shop", (SHOP, {**SHOP, "table-name": "items"}))
    assert (config["source.1.table-name"], config["source.2.table-name"]) == ("ord.*", "items")
    assert "hush-1" not in str(mask_config(config))
    assert FlinkCapture.from_config(config).reads == (("shop", "ord.*"), ("shop", "items"))


@pytest.mark.parametrize(
    ("written", "milliseconds"), [("", 30_000), ("2s", 2_000), ("500 ms", 500), ("1 min", 60_000), ("soon", 30_000)]
)
def test_the_heartbeat_is_read_as_flink_writes_it(written: str, milliseconds: int) -> None:
    assert capture({**SHOP, "heartbeat.interval": written}).heartbeat_ms == milliseconds


@pytest.mark.parametrize(
    "option",
    [
        {"scan.read-changelog-as-append-only.enabled": "true"},
        {"debezium.column.exclude.list": "shop.t.v"},
        {"debezium.skipped.operations": "d"},
    ],
)
def test_inv_40_what_changes_or_leaves_out_events_is_a_fact_about_rows(option: dict[str, str]) -> None:
    made, orders = capture({**SHOP, **option}), replace(table(column("id", "int")), name="orders")
    assert next(iter(option)) in str(made.rows_refused)
    made.check_read(orders)
    with pytest.raises(ConfigError, match=next(iter(option)).replace(".", r"\.")):
        made.check_table(orders)
    followed = {name: value for name, value in {**SHOP, **option}.items() if name not in option}  # what it advises
    assert capture(followed).rows_refused is None


def test_a_table_that_no_source_reads_is_refused() -> None:
    one = capture(SHOP)
    orders, items = (replace(table(column("id", "int")), name=name) for name in ("orders", "items"))
    one.check_table(orders)
    with pytest.raises(ConfigError, match=r"reads shop\.items"):
        one.check_table(items)
    capture().check_table(items)  # without a plan nothing is known


@pytest.mark.parametrize("written", ["=1", "a", ""])
def test_a_setting_of_the_session_needs_a_name_and_a_value(written: str) -> None:
    from airflow_cdc.core.settings import Reader
    from airflow_cdc.kinds import WINGS

    reader = Reader(WINGS.__getitem__)
    raw: dict[str, Any] = {"kind": "flink", "conn_id": "f", "name": "n", "session": [written]}
    assert reader.settings(FlinkSettings, raw) is None
    assert reader.faults


def test_the_endpoint_is_given_the_jobs_own_keys() -> None:
    part = FlinkSettings("flink", "f", "shop", "/plan.json", "file:///s", ("a=b",))
    endpoint = part.at(FlinkEndpoint("http://f:8081/"))
    assert (endpoint.url, endpoint.plan, endpoint.savepoints) == ("http://f:8081", "/plan.json", "file:///s")
    assert endpoint.session == ("a=b",)
    assert replace(part, reads="shop.orders").at(endpoint).reads == "shop.orders"


def test_nothing_in_between_has_no_topics_and_no_events() -> None:
    nothing = DirectTransport(DirectEndpoint())
    assert (nothing.topic_states(["a"]), nothing.end_offsets(["a"]), nothing.topic_configs(["a"])) == ({}, {}, {})
    assert (nothing.topic_names(), nothing.offsets_since({"a": [0]}, 0)) == ([], {})
    for read in (nothing.records, nothing.history_records):
        with pytest.raises(UsageError, match="no events to read"):
            read("a")
