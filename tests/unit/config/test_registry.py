from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import airflow_cdc
from airflow_cdc.config.registry import get_pipeline, load_registry
from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.pipeline import BackfillSpec, Corrected, HoldPolicy, Policy
from airflow_cdc.kinds import kinds_of, no_recovery, read_pipeline
from tests.unit import toy_kinds
from tests.unit.builders import PIPELINE

EXAMPLE = Path(airflow_cdc.__file__).parent / "templates" / "pipelines.yaml"
MINIMAL = """\
pipelines:
  shop:
    source:    {kind: mysql, conn_id: shop_mysql, tables: [shop.customers, shop.orders]}
    connector: {kind: debezium, conn_id: shop_connect, name: shop}
    transport: {kind: kafka, conn_id: shop_kafka}
    sink:      {kind: iceberg, catalog: lake, namespace: shop, writer: cdc_apply}
    spark:     {conn_id: spark_default}
"""
POLICY = """\
    policy:    {approval: when_destructive, approval_timeout: 2h, warn_before_purge: 6h, recover_automatically: false,
                max_deletes: 1%, max_duration: 6h, publish: all, hold: {mode: auto, max: 2h}, notify: [ops]}
"""


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "pipelines.yaml"
    path.write_text(MINIMAL + POLICY)
    return path


def fault(path: Path, text: str) -> ConfigError:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_registry(path)
    return caught.value


DIRECT = (
    MINIMAL.replace("kind: debezium, conn_id: shop_connect", "kind: flink, conn_id: shop_flink")
    .replace("{kind: kafka, conn_id: shop_kafka}", "{kind: direct}")
    .replace("writer: cdc_apply", "writer: connector")
)


def test_a_connector_may_write_the_sink_where_there_are_no_events(registry: Path) -> None:
    registry.write_text(DIRECT)
    shop = load_registry(registry)["shop"]
    assert (shop.has_sink, shop.is_applied, shop.corrected) == (True, False, Corrected.BEFORE_START)
    with pytest.raises(UsageError, match="a repair needs events"):
        shop.check_applied("a repair")


@pytest.mark.parametrize(
    ("text", "key", "cure"),
    [
        (DIRECT.replace("writer: connector", "writer: cdc_apply"), "sink", "writer: connector"),
        (MINIMAL.replace("writer: cdc_apply", "writer: connector"), "sink.writer", "Leave `writer` out"),
    ],
)
def test_who_writes_the_sink_follows_from_the_transport(registry: Path, text: str, key: str, cure: str) -> None:
    error = fault(registry, text)
    assert f"key {key})" in str(error)
    assert cure in str(error)


def test_the_documented_file_loads(registry: Path) -> None:
    shop = load_registry(registry)["shop"]
    assert shop.source.tables == ("shop.customers", "shop.orders")
    assert shop.policy == Policy(
        approval="when_destructive",
        approval_timeout=7200,
        warn_before_purge=21600,
        recover_automatically=False,
        max_deletes=Limit(1.0, percent=True),
        max_duration=21600,
        publish="all",
        hold=HoldPolicy("auto", 7200),
        notify=("ops",),
    )


def test_defaults_in_the_file_are_those_of_the_code(registry: Path) -> None:
    registry.write_text(MINIMAL.replace("    spark:     {conn_id: spark_default}\n", ""))
    shop = load_registry(registry)["shop"]
    assert shop.policy == Policy()
    assert shop.spark.conn_id == "spark_default"


def test_the_example_file_loads_and_shows_the_defaults() -> None:
    shop = load_registry(EXAMPLE)["shop"]
    assert shop.policy == Policy(notify=("ops",))
    shown = yaml.safe_load(EXAMPLE.read_text())["pipelines"]["shop"]["policy"]
    assert set(shown) == set(Policy.__dataclass_fields__)


def test_a_bare_off_is_the_word_off(registry: Path) -> None:
    registry.write_text(MINIMAL + "    policy: {hold: {mode: off}}\n")
    assert load_registry(registry)["shop"].policy.hold.mode == "off"


@pytest.mark.parametrize(
    ("old", "new", "key", "cure"),
    [
        ("conn_id: shop_mysql", "con_id: shop_mysql", "source.conn_id", "Add `conn_id:` to source."),
        ("kind: mysql, ", "kind: mysql, tabels: [x.y], ", "source.tabels", "Did you mean 'tables'?"),
        ("    sink:  ", "    sinc:  ", "sinc", "Did you mean 'sink'?"),
        ("kind: mysql", "kind: oracle", "source.kind", "Write 'mysql', 'mariadb' or 'postgres'."),
        (
            "kind: debezium",
            "kind: maxwell",
            "connector.kind",
            "Write 'debezium', 'debezium_engine', 'canal' or 'flink'.",
        ),
        ("writer: cdc_apply", "writer: nobody", "sink.writer", "Write 'cdc_apply' or 'connector'."),
        ("tables: [shop.customers, shop.orders]", "tables: []", "source.tables", "schema.table"),
        ("tables: [shop.customers, shop.orders]", "tables: [orders]", "source.tables", "schema.table"),
        ("tables: [shop.customers, shop.orders]", "tables: shop.orders", "source.tables", "schema.table"),
        (
            "approval: when_destructive",
            "approval: sometimes",
            "policy.approval",
            "'always', 'when_destructive' or 'never'",
        ),
        ("approval_timeout: 2h", "approval_timeout: soon", "policy.approval_timeout", "Write one like 30m"),
        ("max_deletes: 1%", "max_deletes: few", "policy.max_deletes", "a share like 1%"),
        ("mode: auto", "mode: maybe", "policy.hold.mode", "'auto', 'required' or 'off'"),
        ("max: 2h}", "maximum: 2h}", "policy.hold.maximum", "Did you mean 'max'?"),
        ("recover_automatically: false", "recover_automatically: 'no'", "policy.recover_automatically", "Correct"),
        ("namespace: shop", "namespace: 'sh op'", "sink.namespace", "letters, digits"),
        ("name: shop", "name: ''", "connector.name", "Correct `name`."),
        (
            "    transport: {kind: kafka, conn_id: shop_kafka}",
            "    transport: kafka",
            "transport",
            "Correct `transport`.",
        ),
    ],
)
def test_a_fault_names_file_pipeline_key_and_cure(registry: Path, old: str, new: str, key: str, cure: str) -> None:
    error = fault(registry, (MINIMAL + POLICY).replace(old, new, 1))
    assert error.exit_status == 2
    assert f"{registry}, pipeline 'shop', key {key}" in str(error)
    assert cure in str(error)


def test_further_faults_are_counted(registry: Path) -> None:
    error = fault(registry, MINIMAL.replace("kind: mysql", "kind: x").replace("kind: kafka", "kind: y"))
    assert "(and 1 more)" in str(error)


def test_a_credential_in_the_wrong_place_is_not_shown(registry: Path) -> None:
    for line in ("    password: hunter2\n", "    policy: {approval_timeout: {password: hunter2}}\n"):
        assert "hunter2" not in str(fault(registry, MINIMAL + line).todo)
    assert "hunter2" not in str(fault(registry, MINIMAL + "    password: hunter2\n"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it has no mapping `pipelines`"),
        ("- a\n", "it has no mapping `pipelines`"),
        ("pipelines: [shop]\n", "it has no mapping `pipelines`"),
        ("pipelines: {}\n", "`pipelines` is empty"),
        (MINIMAL + "defaults: {}\n", "unknown key 'defaults'"),
        ("pipelines:\n  shop: {a\n", "is not YAML"),
        (MINIMAL + MINIMAL.split("\n", 1)[1], "the key 'shop' appears twice"),
        (MINIMAL.replace("  shop:\n", "  sh-op:\n"), "name is invalid"),
        (MINIMAL.replace("  shop:\n", "  1:\n"), "name is invalid"),
        (MINIMAL.replace("  shop:\n", "  '':\n"), "name is invalid"),
        ("pipelines:\n  shop:\n", "must be a mapping of keys"),
        ("pipelines: &a\n  shop: *b\n", "is not YAML"),
        ("a: \x01\n", "is not YAML"),
        ("pipelines: {? [a] : b}\n", "unhashable key"),
    ],
)
def test_a_file_that_is_no_registry(registry: Path, text: str, told: str) -> None:
    assert told in str(fault(registry, text))


def test_yaml_faults_name_the_line(registry: Path) -> None:
    assert "line 3" in str(fault(registry, "pipelines:\n  shop:\n    a: [\n"[:-1] + "}\n"))


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist") as caught:
        load_registry(tmp_path / "nowhere.yaml")
    assert "nowhere.yaml" in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_registry(tmp_path)
    (tmp_path / "latin").write_bytes(b"pipelines: {\xff: 1}")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_registry(tmp_path / "latin")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ((("tables: [shop.customers, shop.orders]", "tables: [shop.orders, old.orders]"),), "already has"),
        ((("tables: [shop.customers, shop.orders]", "tables: [shop.orders, shop.Orders]"),), "already has"),
    ],
)
def test_two_tables_for_one_sink_table(registry: Path, change: tuple[tuple[str, str], ...], told: str) -> None:
    text = MINIMAL
    for old, new in change:
        text = text.replace(old, new)
    assert told in str(fault(registry, text))


def test_two_pipelines_for_one_connector_or_sink(registry: Path) -> None:
    second = MINIMAL.split("\n", 1)[1].replace("  shop:\n", "  shop2:\n")
    assert "sink table lake.shop.customers" in str(fault(registry, MINIMAL + second))
    elsewhere = second.replace("namespace: shop", "namespace: other")
    assert "connector shop_connect.shop" in str(fault(registry, MINIMAL + elsewhere))
    registry.write_text(MINIMAL + elsewhere.replace("name: shop}", "name: shop2}"))
    assert list(load_registry(registry)) == ["shop", "shop2"]


@pytest.mark.parametrize(
    ("missing", "key"),
    [
        ("shop_mysql", "source.conn_id"),
        ("shop_connect", "connector.conn_id"),
        ("shop_kafka", "transport.conn_id"),
        ("lake", "sink.catalog"),
        ("spark_default", "spark.conn_id"),
    ],
)
def test_a_missing_connection_is_named(registry: Path, missing: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_registry(registry, connection_exists=lambda conn_id: conn_id != missing)
    assert f"key {key}" in str(caught.value)
    assert f"airflow connections add {missing}" in str(caught.value)
    assert load_registry(registry, connection_exists=lambda _: True)


def test_an_unknown_pipeline_is_a_usage_error_with_the_nearest_name(registry: Path) -> None:
    pipelines = load_registry(registry)
    assert get_pipeline(pipelines, "shop") is pipelines["shop"]
    with pytest.raises(UsageError, match="Did you mean 'shop'"):
        get_pipeline(pipelines, "shopp", where=str(registry))
    with pytest.raises(UsageError, match="Write one of: shop"):
        get_pipeline(pipelines, "zzz")


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("{table: shop.orders, by: created_at}", [BackfillSpec("shop.orders", "created_at")]),
        ("[{table: shop.orders, by: day, format: '%Y%m%d'}]", [BackfillSpec("shop.orders", "day", format="%Y%m%d")]),
        (
            "{table: shop.orders, by: id, step: 1000, origin: 2026-01-01}",
            [BackfillSpec("shop.orders", "id", step=1000, origin="2026-01-01")],
        ),
    ],
)
def test_how_tables_are_cut(registry: Path, text: str, specs: list[BackfillSpec]) -> None:
    registry.write_text(MINIMAL + f"    backfill: {text}\n")
    shop = load_registry(registry)["shop"]
    assert list(shop.backfill) == specs
    assert read_pipeline(shop.to_json()) == shop


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{table: shop.order, by: x}", r"backfill names shop\.order.*Did you mean 'shop\.orders'"),
        ("{table: shop.orders, by: id, step: 5, origin: soon}", "it is not a date.*2026-01-31"),
        ("{table: shop.orders, by: id, step: 5}", "belong together"),
        ("{table: shop.orders, by: id, steps: 5}", "backfill.steps is not a known key here.*Did you mean 'step'"),
    ],
)
def test_a_table_that_cannot_be_cut_so(registry: Path, text: str, said: str) -> None:
    registry.write_text(MINIMAL + f"    backfill: {text}\n")
    with pytest.raises(ConfigError, match=said):
        load_registry(registry)


@pytest.mark.parametrize("name", ["shop.my table", "shop.odd `na'me", "shöp.bestellungen", "shop.a-b$"])
def test_tables_whose_names_need_quotes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pipelines.yaml"
    path.write_text(MINIMAL.replace("shop.orders", json.dumps(name)))
    assert name in load_registry(path)["shop"].source.tables


@pytest.mark.parametrize("name", ["shop.a.b", "shop.", "shop. a", "shop.a,b", "shop.a\tb"])
def test_names_that_cannot_be_told_apart(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pipelines.yaml"
    path.write_text(MINIMAL.replace("shop.orders", json.dumps(name)))
    with pytest.raises(ConfigError, match=r"source\.tables"):
        load_registry(path)


def test_replicas_are_named_by_their_connections(tmp_path: Path) -> None:
    path = tmp_path / "pipelines.yaml"
    named = MINIMAL.replace("shop.orders]}", "shop.orders], replicas: [shop_replica]}")
    path.write_text(named)
    pipeline = load_registry(path)["shop"]
    assert pipeline.source.replicas == ("shop_replica",)
    assert read_pipeline(json.dumps(pipeline.to_json())) == pipeline
    with pytest.raises(ConfigError, match=r"key source.replicas.0"):
        load_registry(path, connection_exists=lambda conn_id: conn_id != "shop_replica")
    itself = fault(path, named.replace("[shop_replica]", "[shop_mysql]"))
    assert "source.replicas names the source itself" in str(itself)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "{kind: mysql, ",
            "{kind: toy, slot: s, ",
            "Debezium does not read Toy.*key source.kind.*'mysql', 'mariadb' or 'postgres'",
        ),
        ("{kind: kafka, ", "{kind: toy, ", "Debezium does not write to Toy queue.*key transport.kind.*'kafka'"),
        ("{kind: mysql, ", "{kind: toy, ", "source.slot is missing"),
        ("{kind: mysql, ", "{kind: toy, slit: s, ", r"source.slot is missing \(and 1 more\)"),
        ("{kind: mysql, ", "{kind: mysql, slot: s, ", "source.slot is not a known key here"),
        ("{kind: mysql, ", "{kind: mariadb, replicas: [r], ", "source.replicas is not a known key here"),
        ("{kind: mysql, ", "{kind: [mysql], ", r"source.kind is not one of the allowed words"),
        ("{kind: mysql, ", "{", "source.kind is missing.*Add `kind:` to source"),
        ("{kind: mysql, ", "{kind: toi, ", "Write 'mysql', 'mariadb', 'postgres' or 'toy'"),
    ],
)
def test_what_a_kind_reads_and_its_own_keys(
    registry: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
) -> None:
    toy_kinds.declare(monkeypatch)
    registry.write_text(MINIMAL.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        load_registry(registry)


def test_a_kind_of_another_distribution_is_read_with_its_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    toy_kinds.declare(monkeypatch)
    spec = toy_kinds.ToySettings("toy", "t", ("a.b",), slot="s")
    pipeline = replace(PIPELINE, source=spec)

    assert read_pipeline(pipeline.to_json()) == pipeline
    assert kinds_of(pipeline)[0] is toy_kinds.SOURCE


def test_a_mariadb_source_is_a_kind_of_its_own(registry: Path) -> None:
    registry.write_text(MINIMAL.replace("kind: mysql", "kind: mariadb"))
    shop = load_registry(registry)["shop"]
    assert (shop.source.kind, shop.source.replicas) == ("mariadb", ())
    assert no_recovery(shop) == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  origin: 2026-02-30", "'2026-02-30' is no value of its type: day is out of range for month"),
        ("  origin: !!int x", "'x' is no value of its type"),
        ("    airflow: {timeout: 999999999999d}", "airflow.timeout"),
        (f"    airflow: {{timeout: {'9' * 5000}}}", "is no value of its type: Exceeds the limit"),
        ("    airflow: " + "[" * 3000, "nested too deeply|is not YAML"),
    ],
)
def test_a_value_that_no_program_can_hold_is_one_line_with_file_and_line(registry: Path, line: str, said: str) -> None:
    error = fault(registry, MINIMAL.rstrip("\n") + "\n" + line + "\n")
    assert re.search(said, str(error)), str(error)
    assert "\n" not in str(error)
    assert "pipelines.yaml" in error.where
    if not line.endswith("["):  # the end of the file is where that one is noticed
        assert f"line {len(MINIMAL.splitlines()) + 1}" in error.where
