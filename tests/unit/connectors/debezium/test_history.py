"""The deep comparison of a Debezium schema history with the source's definition (INV 12).

The history's tables here are as Debezium 3.6.1 wrote them on MySQL 8.0.15; test_history_real.py makes them anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.history import compare_history, fold_history, read_at
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.core.position import Position
from airflow_cdc.core.table import Column, Table
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from tests.unit.tables import col


def column(name: str, position: int, kind: str, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"length": None, "scale": None, "charsetName": None, "optional": True, "enumValues": []}
    return {"name": name, "position": position, "typeName": kind, "typeExpression": kind, **base, **more}


def definition(name: str, ordinal: int, data_type: str, column_type: str = "", **more: Any) -> Column:
    return col(name, ordinal, data_type, column_type or data_type, **more)


ID = definition("id", 1, "bigint", "bigint(20) unsigned", nullable=False, precision=20, scale=0)
STATUS = definition(
    "status", 2, "enum", "enum('new','it''s')", charset="utf8mb4", collation="utf8mb4_0900_ai_ci", char_length=4,
    labels=("new", "it's"),
)  # fmt: skip
NOTE = definition("note", 3, "varchar", "varchar(20)", charset="latin1", char_length=20, byte_length=20)
DEFN = Table("shop", "orders", (ID, STATUS, NOTE), ("id",))
HIST: dict[str, Any] = {
    "defaultCharsetName": "utf8mb4",
    "primaryKeyColumnNames": ["id"],
    "columns": [
        column("id", 1, "BIGINT UNSIGNED", length=20, optional=False),
        column("status", 2, "ENUM", length=1, charsetName="utf8mb4", enumValues=["'new'", "'it''s'"]),
        column("note", 3, "VARCHAR", length=20, charsetName="latin1"),
    ],
}


def changed(position: int, **more: Any) -> dict[str, Any]:
    columns = [dict(c, **more) if c["position"] == position else c for c in HIST["columns"]]
    return {**HIST, "columns": columns}


def one(new: Column, old: dict[str, Any]) -> tuple[str, ...]:
    table = Table("shop", "t", (replace(new, ordinal=1),))
    return compare_history(table, {"primaryKeyColumnNames": [], "columns": [{**old, "position": 1}]})


UUID, OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "7a11fa47-71ca-11e1-9e33-c80aa9429562"
BY_FILE = {"file": "mysql-bin.000010", "pos": 400}
BY_GTID = {**BY_FILE, "gtids": f"{UUID}:1-40"}


def start_of(offset: dict[str, Any]) -> Position:
    position = MySqlCodec().read(offset, {}).position
    assert position is not None
    return position


@pytest.mark.parametrize(
    ("offset", "position", "read"),
    [
        (BY_FILE, {"file": "mysql-bin.000010", "pos": 400}, True),
        (BY_FILE, {"file": "mysql-bin.000009", "pos": 9000}, True),
        (BY_FILE, {"file": "mysql-bin.000010", "pos": 401}, False),
        (BY_FILE, {"file": "mysql-bin.000011", "pos": 4}, False),
        (BY_FILE, {"file": "other-bin.000002", "pos": 4}, False),
        (BY_FILE, {"file": "mysql-bin.000001", "pos": 4, "gtids": f"{UUID}:1-4"}, False),
        (BY_GTID, {"file": "mysql-bin.000099", "pos": 4, "gtids": f"{UUID}:1-40"}, True),
        (BY_GTID, {"file": "mysql-bin.000001", "pos": 4, "gtids": f"{UUID}:1-41"}, False),
        (BY_GTID, {"file": "mysql-bin.000001", "pos": 4, "gtids": f"{OTHER}:1"}, False),
        (BY_GTID, {"file": "mysql-bin.000099", "pos": 4}, True),
        (BY_GTID, {"gtids": "no set"}, False),
        (BY_FILE, {"pos": 4}, False),
        (BY_FILE, None, False),
    ],
)
def test_what_debezium_reads_of_its_history_when_it_starts_at_an_offset(
    offset: dict[str, Any], position: Any, read: bool
) -> None:
    """After a RESET the definitions noted before are later ones to it, and it passes them over."""
    record = {"position": position, "tableChanges": []}
    assert read_at([record], start_of(offset)) == ([record] if read else [])


@pytest.mark.parametrize(
    ("gtids", "read"),
    [("0-103-7", True), ("0-103-6", True), ("0-9-7", True), ("0-103-8", False), ("3-1-1", False), ("", True)],
)
def test_of_a_mariadb_source_its_own_gtids_say_what_is_read(gtids: str, read: bool) -> None:
    start = MariaDbPosition("maria-bin.000005", 842, Domains.parse("0-103-7"))
    record = {"position": {"file": "maria-bin.000009", "pos": 4, "gtids": gtids}, "tableChanges": []}
    assert read_at([record], start) == ([record] if read else [])


def test_equal_tables_have_no_difference() -> None:
    assert compare_history(DEFN, HIST) == ()


@pytest.mark.parametrize(
    ("hist", "said"),
    [
        (changed(1, typeName="INT UNSIGNED"), "column id, type: bigint in the source, int in the history"),
        (changed(1, typeName="BIGINT"), "column id, unsigned: True in the source, False in the history"),
        (changed(3, length=30), "column note, length: 20 in the source, 30 in the history"),
        (changed(3, charsetName="utf8mb4"), "column note, character set: latin1 in the source, utf8mb4"),
        (changed(3, charsetName=None), "column note, character set: latin1 in the source, unknown"),
        (changed(2, enumValues=["'first'", "'new'", "'it''s'"]), "column status, labels"),
        (changed(2, enumValues=["'it''s'", "'new'"]), "column status, labels"),
        (changed(3, optional=False), "column note, nullable: True in the source, False in the history"),
        (changed(3, name="remark"), "column note: not in the history"),
        ({**HIST, "primaryKeyColumnNames": ["id", "note"]}, "key: (id) in the source, (id, note) in the history"),
        ({**HIST, "columns": HIST["columns"][:2]}, "column note: not in the history"),
        ({**HIST, "columns": [*HIST["columns"], column("more", 4, "INT")]}, "column more: only in the history"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_inv_12_each_difference_is_named(hist: dict[str, Any], said: str) -> None:
    assert any(said in text for text in compare_history(DEFN, hist)), compare_history(DEFN, hist)


def test_inv_12_two_swapped_columns_of_one_type_are_seen() -> None:
    a, b = (definition(n, o, "varchar", charset="utf8mb4", char_length=5) for n, o in (("a", 1), ("b", 2)))
    old = [column(n, p, "VARCHAR", length=5, charsetName="utf8mb4") for n, p in (("b", 1), ("a", 2))]
    differences = compare_history(Table("s", "t", (a, b)), {"primaryKeyColumnNames": [], "columns": old})
    assert differences == ("order of columns: a, b in the source, b, a in the history",)


def test_inv_12_drop_and_add_of_the_same_count_is_seen() -> None:
    new = Table("s", "t", (definition("b", 1, "int"), definition("c", 2, "int")))
    old = {"primaryKeyColumnNames": [], "columns": [column("a", 1, "INT"), column("b", 2, "INT")]}
    assert compare_history(new, old) == ("column c: not in the history", "column a: only in the history")


@pytest.mark.parametrize("broken", [{}, {"columns": None}, {"columns": [{"name": "x"}]}, {"columns": ["text"]}])
def test_what_cannot_be_compared_is_a_difference(broken: dict[str, Any]) -> None:
    assert "cannot be compared" in compare_history(DEFN, {"primaryKeyColumnNames": [], **broken})[0]


def test_a_table_the_history_lacks_is_a_difference() -> None:
    assert compare_history(DEFN, None) == ("the schema history has no such table",)


TEXT: dict[str, Any] = {"charset": "latin1", "char_length": 5, "byte_length": 5}
SAME = [
    (definition("c", 1, "tinyint", "tinyint(1)"), column("c", 1, "BOOLEAN")),
    (definition("c", 1, "int", "int(11)"), column("c", 1, "INTEGER")),
    (definition("c", 1, "int", "int unsigned"), column("c", 1, "INT UNSIGNED", length=5)),
    (definition("c", 1, "int", "int(10) unsigned zerofill"), column("c", 1, "INT UNSIGNED ZEROFILL")),
    (definition("c", 1, "int"), column("c", 1, "INT SIGNED")),
    (definition("c", 1, "bigint"), column("c", 1, "INT8")),
    (definition("c", 1, "mediumint"), column("c", 1, "MIDDLEINT")),
    (definition("c", 1, "decimal", precision=10, scale=0), column("c", 1, "FIXED", length=10, scale=0)),
    (definition("c", 1, "decimal", precision=10, scale=0), column("c", 1, "DEC")),
    (definition("c", 1, "decimal", "decimal(65,30)", precision=65, scale=30), column("c", 1, "DECIMAL", length=65, scale=30)),
    (definition("c", 1, "double", precision=22), column("c", 1, "DOUBLE PRECISION")),
    (definition("c", 1, "double", precision=22), column("c", 1, "REAL")),
    (definition("c", 1, "double", precision=22), column("c", 1, "FLOAT", length=30)),
    (definition("c", 1, "float", precision=12), column("c", 1, "FLOAT", length=10)),
    (definition("c", 1, "float", "float(7,3)", precision=7, scale=3), column("c", 1, "FLOAT", length=7, scale=3)),
    (definition("c", 1, "float", precision=12), column("c", 1, "FLOAT4")),
    (definition("c", 1, "char", charset="utf8", char_length=4), column("c", 1, "NCHAR", length=4, charsetName="utf8")),
    (definition("c", 1, "char", charset="utf8mb3", char_length=1), column("c", 1, "CHAR", charsetName="utf8")),
    (definition("c", 1, "varchar", **TEXT), column("c", 1, "CHARACTER VARYING", length=5, charsetName="latin1")),
    (definition("c", 1, "mediumtext", **TEXT), column("c", 1, "LONG VARCHAR", charsetName="latin1")),
    (definition("c", 1, "mediumtext", **TEXT), column("c", 1, "TEXT", length=70000, charsetName="latin1")),
    (definition("c", 1, "tinyblob", byte_length=255), column("c", 1, "BLOB", length=10)),
    (definition("c", 1, "mediumblob"), column("c", 1, "LONG VARBINARY")),
    (definition("c", 1, "varbinary", byte_length=10), column("c", 1, "VARCHAR", length=10, charsetName="binary")),
    (definition("c", 1, "binary", byte_length=1), column("c", 1, "BINARY")),
    (definition("c", 1, "bit", "bit(1)", precision=1), column("c", 1, "BIT", length=1)),
    (definition("c", 1, "datetime", fsp=0), column("c", 1, "DATETIME")),
    (definition("c", 1, "datetime", "datetime(6)", fsp=6), column("c", 1, "DATETIME", length=6)),
    (definition("c", 1, "time", "time(3)", fsp=3), column("c", 1, "TIME", length=3)),
    (definition("c", 1, "year"), column("c", 1, "YEAR", length=4)),
    (definition("c", 1, "geomcollection"), column("c", 1, "GEOMETRYCOLLECTION")),
    (definition("c", 1, "json"), column("c", 1, "JSON")),
    (definition("c", 1, "point", srid=4326), column("c", 1, "POINT")),
    (
        definition("c", 1, "enum", charset="latin1", labels=("a\\b", "it's", "x", 'dq"s', "n\nl")),
        column("c", 1, "ENUM", charsetName="latin1", enumValues=["'a\\\\b'", "'it''s'", "'x '", "'dq\\\"s'", "'n\\nl'"]),
    ),
    (
        definition("c", 1, "set", charset="latin1", labels=("x", 'y"z')),
        column("c", 1, "SET", charsetName="latin1", enumValues=['"x"', '"y""z"']),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old"), SAME, ids=[f"{old['typeName']}-{new.native.type}" for new, old in SAME])
def test_a_streamed_ddl_in_other_words_is_the_same(new: Column, old: dict[str, Any]) -> None:
    assert one(new, old) == ()


DIFFERENT = [
    (definition("c", 1, "datetime", fsp=6), column("c", 1, "DATETIME"), "length"),
    (definition("c", 1, "datetime", fsp=0), column("c", 1, "TIMESTAMP"), "type"),
    (definition("c", 1, "decimal", precision=10, scale=2), column("c", 1, "DECIMAL", length=10, scale=3), "length"),
    (definition("c", 1, "bit", precision=8), column("c", 1, "BIT", length=1), "length"),
    (definition("c", 1, "longtext", **TEXT), column("c", 1, "TEXT", charsetName="latin1"), "type"),
    (definition("c", 1, "blob"), column("c", 1, "TEXT", charsetName="latin1"), "type"),
    (definition("c", 1, "float"), column("c", 1, "FLOAT", length=30), "type"),
    (definition("c", 1, "char", charset="ucs2", char_length=3), column("c", 1, "CHAR", length=3, charsetName="latin1"), "set"),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old", "what"), DIFFERENT)
def test_what_decodes_differently_is_a_difference(new: Column, old: dict[str, Any], what: str) -> None:
    differences = one(new, old)
    assert len(differences) == 1
    assert what in differences[0]


def table(*names: str) -> dict[str, Any]:
    return {"primaryKeyColumnNames": [], "columns": [column(n, p + 1, "INT") for p, n in enumerate(names)]}


def record(kind: str, name: str, *names: str, **more: Any) -> dict[str, Any]:
    entry = {"type": kind, "id": name, **more}
    return {
        "source": {"server": "s1"},
        "ddl": "…",
        "tableChanges": [entry | ({} if kind == "DROP" else {"table": table(*names)})],
    }


def folded(*records: dict[str, Any], server: str = "") -> dict[str, list[str]]:
    return {name: [c.text("name") for c in t.each("columns")] for name, t in fold_history(records, server).items()}


def test_the_newest_definition_per_table_stands() -> None:
    create, alter = record("CREATE", '"shop"."a"', "id"), record("ALTER", '"shop"."a"', "id", "v")
    assert folded(create, alter) == {"shop.a": ["id", "v"]}
    assert folded(alter, create) == {"shop.a": ["id"]}


def test_drop_removes_and_a_later_create_brings_back() -> None:
    create, drop = record("CREATE", '"shop"."a"', "id"), record("DROP", '"shop"."a"')
    assert folded(create, drop) == {}
    assert folded(create, drop, record("CREATE", '"shop"."a"', "n")) == {"shop.a": ["n"]}


def test_a_rename_moves_the_definition() -> None:
    renamed = record("ALTER", '"shop"."b"', "id", previousId='"shop"."a"')
    assert folded(record("CREATE", '"shop"."a"', "id"), renamed) == {"shop.b": ["id"]}


@pytest.mark.parametrize("ddl", ["DROP DATABASE IF EXISTS `shop`", "drop schema shop", "/* x */ DROP DATABASE shop;"])
def test_dropping_a_database_removes_its_tables(ddl: str) -> None:
    gone = {"source": {"server": "s1"}, "ddl": ddl, "databaseName": "shop", "tableChanges": []}
    kept = record("CREATE", '"shopping"."a"', "id")
    assert folded(record("CREATE", '"shop"."a"', "id"), kept, gone) == {"shopping.a": ["id"]}


def test_quotes_and_dots_in_names() -> None:
    assert folded(record("CREATE", '"sh""op"."a.b"', "id")) == {'sh"op.a.b': ["id"]}


def test_records_of_another_server_are_passed_over() -> None:
    other = record("CREATE", '"shop"."b"', "id") | {"source": {"server": "s2"}}
    assert folded(record("CREATE", '"shop"."a"', "id"), other, server="s1") == {"shop.a": ["id"]}
    assert set(folded(record("CREATE", '"shop"."a"', "id"), other)) == {"shop.a", "shop.b"}


def test_records_without_table_changes_change_nothing() -> None:
    create = record("CREATE", '"shop"."a"', "id")
    assert folded(create, {"ddl": "SET character_set_server=utf8mb4"}, {"ddl": None, "tableChanges": None}) == {
        "shop.a": ["id"]
    }
