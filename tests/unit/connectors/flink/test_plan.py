"""A compiled plan as Flink 1.20.3 writes it, and its source as a new one."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.connectors.flink.plan import Plan
from airflow_cdc.core.errors import ConnectorError

OFFSET = {"file": "mysql-bin.000004", "pos": "198", "kind": "SPECIFIC", "gtids": "u:1-7", "row": "1", "event": "2"}
OPTIONS = {
    "connector": "mysql-cdc",
    "password": "hush-1",
    "scan.startup.mode": "timestamp",
    "scan.startup.timestamp-millis": "1",
}


def node(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "type": "stream-exec-calc_1", **more}


def source(number: int, options: dict[str, str]) -> dict[str, Any]:
    table = {"identifier": "`a`.`b`.`t`", "resolvedTable": {"options": dict(options)}}
    return node(number, scanTableSource={"table": table})


def scan(**more: Any) -> dict[str, Any]:
    return node(1, type="stream-exec-table-source-scan_2", scanTableSource={"table": {}, **more})


def sink(**more: Any) -> dict[str, Any]:
    return node(3, type="stream-exec-sink_1", **more)


def write(path: Path, *nodes: dict[str, Any]) -> Plan:
    ends = [{"source": 1, "target": 2, "shuffle": {}}, {"source": 2, "target": 3, "shuffle": {}}]
    path.write_text(json.dumps({"flinkVersion": "1.20", "nodes": list(nodes), "edges": ends}))
    path.chmod(0o600)
    return Plan.read(str(path))


def test_the_source_gets_a_new_id_and_the_offset_and_all_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = write(path, source(1, OPTIONS), node(2), node(3))
    plan.starting_at(OFFSET).write()
    new = Plan.read(str(path))
    assert [one["id"] for one in new.document["nodes"]] == [4, 2, 3]
    assert [(one["source"], one["target"]) for one in new.document["edges"]] == [(4, 2), (2, 3)]
    assert new.sources == (
        {
            "connector": "mysql-cdc",
            "password": "hush-1",
            "scan.startup.mode": "specific-offset",
            "scan.startup.specific-offset.file": "mysql-bin.000004",
            "scan.startup.specific-offset.pos": "198",
            "scan.startup.specific-offset.gtid-set": "u:1-7",
            "scan.startup.specific-offset.skip-events": "2",
            "scan.startup.specific-offset.skip-rows": "1",
        },
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600  # it holds a password
    assert plan.sources == (OPTIONS,)  # what was read is as it was


def test_a_plan_with_two_sources_is_not_set(tmp_path: Path) -> None:
    plan = write(tmp_path / "p", source(1, OPTIONS), source(2, OPTIONS), node(3))
    with pytest.raises(ConnectorError, match="has 2 sources"):
        plan.starting_at(OFFSET)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is not JSON"),
        ("[]", "is no compiled plan"),
        (None, "cannot be read"),
        ("source:\n  type: mysql\n  password: hush-1\nsink:\n  type: iceberg\n", "is a pipeline YAML"),
    ],
)
def test_what_is_no_plan_is_named_and_its_password_is_not(tmp_path: Path, content: str | None, why: str) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConnectorError, match=why) as error:
        Plan.read(str(path))
    assert error.value.where == str(path)
    assert "hush-1" not in str(error.value)


@pytest.mark.parametrize(
    ("nodes", "between", "keeps"),
    [
        ((scan(), sink()), (), ()),
        ((scan(), node(2), sink()), ("calc",), ()),
        ((scan(abilities=[{"type": "ReadingMetadata"}]), sink()), ("ReadingMetadata",), ()),
        ((scan(), sink(requireUpsertMaterialize=True)), ("upsert-materialize",), ("upsert-materialize",)),
        ((scan(), node(2, type="stream-exec-join_1"), sink()), ("join",), ("join",)),
        # as Flink plans a copy into Hudi: the old images of updated rows are left out
        ((scan(), node(2, type="stream-exec-drop-update-before_1"), sink()), (), ()),
    ],
)
def test_operators_that_change_or_keep_rows_are_named(
    tmp_path: Path, nodes: tuple[dict[str, Any], ...], between: tuple[str, ...], keeps: tuple[str, ...]
) -> None:
    plan = write(tmp_path / "plan.json", *nodes)
    assert (plan.between, plan.keeps) == (between, keeps)


def two(path: Path) -> Plan:
    """Two tables, each copied to a sink of its own: 1 → 3, 2 → 4."""
    nodes = (
        *(source(n, {**OPTIONS, "database-name": "shop", "table-name": t}) for n, t in ((1, "orders"), (2, "items"))),
        sink(),
        {**sink(), "id": 4},
    )
    ends = [{"source": n, "target": n + 2} for n in (1, 2)]
    path.write_text(json.dumps({"nodes": nodes, "edges": ends}))
    return Plan.read(str(path))


def test_of_two_sources_the_named_one_is_new_and_the_other_is_as_it_was(tmp_path: Path) -> None:
    plan = two(tmp_path / "p")
    new = plan.starting_at(OFFSET, "shop.items")
    assert [(one["source"], one["target"]) for one in new.document["edges"]] == [(1, 3), (5, 4)]
    assert [one["scan.startup.mode"] for one in new.sources] == ["timestamp", "specific-offset"]
    alone = plan.starting_at(OFFSET, "shop.items", alone=True)
    assert [(one["source"], one["target"]) for one in alone.document["edges"]] == [(1, 3), (5, 6)]
    with pytest.raises(
        ConnectorError, match=r"has 0 sources that read shop\.item; there are shop\.items, shop\.orders"
    ):
        plan.source("shop.item")


def test_what_both_sources_fill_is_left_as_it_is(tmp_path: Path) -> None:
    plan = two(tmp_path / "p")
    plan.document["edges"].append({"source": 1, "target": 4})
    alone = plan.starting_at(OFFSET, "shop.items", alone=True)
    assert [one["id"] for one in alone.document["nodes"]] == [1, 5, 3, 4]


def test_what_is_done_to_the_rows_of_another_source_is_its_own_affair(tmp_path: Path) -> None:
    plan = two(tmp_path / "p")
    plan.document["nodes"][2]["requireUpsertMaterialize"] = True
    assert (plan.of("shop.orders").keeps, plan.of("shop.items").keeps) == (("upsert-materialize",), ())
    assert [one["table-name"] for one in plan.of("shop.items").sources] == ["items"]
