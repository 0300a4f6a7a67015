"""Where one case ends and the next begins in what is said of a connector's settings, offsets and records."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.config_rules import HistoryDefinitions
from airflow_cdc.connectors.debezium.events.appended import Appended
from airflow_cdc.connectors.debezium.events.flattened import _is_null
from airflow_cdc.connectors.debezium.events.mysql import DecodeModes, MySqlValues
from airflow_cdc.connectors.debezium.null_defaults import NullFault
from airflow_cdc.connectors.debezium.offsets.mysql import validate
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import NewestRecord
from airflow_cdc.events.record import RawRecord, Want
from airflow_cdc.events.value import NoValueError
from airflow_cdc.events.wire.json import Json
from tests.unit.connectors.debezium.test_history import DEFN, HIST
from tests.unit.connectors.debezium.test_written import TEXT, WORKERS, looked, plain
from tests.unit.tables import col, column

ITEMS = Table("shop", "items", (col("id", 1, "int", "int", nullable=False), col("n", 2, "int", "int")), ("id",))


# ---- what is said of NULLs, definitions and settings ------------------------------------------------------------------


@pytest.mark.parametrize(("count", "more"), [(1, ""), (5, ""), (6, " and 1 more"), (9, " and 4 more")])
def test_a_long_list_of_columns_is_cut_with_the_number_of_the_others(count: int, more: str) -> None:
    """Nobody reads of "0 more"."""
    what = NullFault(tuple(f"shop.t.c{n}" for n in range(count)), {}).what
    assert (
        what
        == f"NULL in {', '.join(f'shop.t.c{n}' for n in range(min(count, 5)))}{more} arrives as the column's default"
    )


def test_only_tables_that_differ_are_among_the_differences() -> None:
    change: Mapping[str, Any] = {"type": "CREATE", "id": '"shop"."orders"', "table": HIST}
    history = HistoryDefinitions([{"source": {"server": "shop"}, "tableChanges": [change]}])
    other = Table("shop", "other", ITEMS.columns, ("id",))
    assert set(history.differences({"shop.orders": DEFN, "shop.other": other})) == {"shop.other"}
    assert (history.size, HistoryDefinitions([]).newest_ms) == (1, 0)


def test_a_transform_without_a_class_is_refused_as_nothing() -> None:
    config = {**WORKERS, "transforms": "a"}
    with pytest.raises(ConfigError, match=r"transforms\.a\.type is nothing|transforms\.a\.type=nothing"):
        ConnectorSettings.from_config(config).topic_of("shop.t")


# ---- offsets ----------------------------------------------------------------------------------------------------------

GOOD: Mapping[str, Any] = {"file": "mysql-bin.000001", "pos": 4}
# as Debezium's MySqlOffsetContext and TransactionContext write them
KNOWN = {
    "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9",
    "ts_sec": 1,
    "server_id": 1,
    "event": 0,
    "row": 0,
    "snapshot": True,
    "snapshot_completed": False,
    "transaction_id": None,
    "transaction_data_collection_order_shop.t": 1,
    "incremental_snapshot_signal_rows": "x",
}


@pytest.mark.parametrize("key", KNOWN)
def test_each_key_that_debezium_writes_is_known(key: str) -> None:
    assert validate({**GOOD, key: KNOWN[key]}) == ()


@pytest.mark.parametrize("key", ["pos", "ts_sec", "server_id", "event", "row"])
def test_each_number_of_an_offset_is_one(key: str) -> None:
    assert validate({**GOOD, key: 0}) == ()
    for wrong in (-1, "1", True, 1.5):
        (fault,) = validate({**GOOD, key: wrong})
        assert fault == f"{key} must be a number of 0 or more, not {wrong!r}"


@pytest.mark.parametrize(("key", "meant"), [("poss", "pos"), ("gtid", "gtids"), ("serverid", "server_id"), ("xyz", "")])
def test_a_misspelt_key_is_told_with_the_nearest(key: str, meant: str) -> None:
    (fault,) = validate({**GOOD, key: 1})
    assert fault == f"unknown key {key!r}" + (f" (did you mean {meant!r}?)" if meant else "")


# ---- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "null"),
    [
        (b"null", True),
        (b'{"schema":{},"payload":null}', True),
        (b'{"schema":{},"payload":{}}', False),
        (b'{"schema":null,"payload":null}', False),
        (b'{"schema":{},"payload":null,"more":1}', False),
        *((text, False) for text in (b"[1]", b"7", b'"x"', b"{}", b"", b"\xff")),
    ],
)
def test_json_that_is_no_row_is_a_delete_only_if_it_says_that_there_is_none(value: bytes, *, null: bool) -> None:
    assert _is_null(Json(), value) is null


def test_without_schemas_a_payload_is_a_column_of_that_name() -> None:
    assert not _is_null(Json(wrapped=False), b'{"schema":{},"payload":null}')
    assert _is_null(Json(wrapped=False), b"null")


def test_how_the_worker_writes_is_told_for_each_side_by_that_side() -> None:
    """A topic without records is judged by others, whose key may be written otherwise than their value."""
    beat = NewestRecord(plain({"serverName": "shop"}), TEXT, at_ms=9)
    found = [one for one in looked(WORKERS, {"__debezium-heartbeat.shop": beat}) if one.state == "bad"]
    assert found
    assert all("value.converter" in one.todo and "key.converter" not in one.todo for one in found)


def opened(value: bytes, key: bytes = b'{"id":1}') -> Any:
    (one,) = Appended().opener(ITEMS, MySqlValues(), Want(), {})(RawRecord(0, 1, key, value))
    return one


@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_a_row_of_a_change_log_is_its_operation_and_its_row(op: str) -> None:
    one = opened(json.dumps({"op": op, "after": {"id": 1, "n": 7}}).encode())
    assert (one.op, one.bad, one.key, one.after) == (op, "", (1,), (1, 7))
    assert "no row after it" in opened(json.dumps({"op": op, "after": None}).encode()).bad


def test_a_delete_of_a_change_log_needs_no_row_and_what_cannot_be_read_is_told() -> None:
    assert (opened(b'{"op":"d","after":null}').bad, opened(b'{"op":"d","after":null}').after) == ("", None)
    assert opened(b'{"op":"t","after":null}').bad == "unknown op t"
    garbled = opened(b"{")
    assert garbled.op == ""
    assert "the value" in garbled.bad
    with pytest.raises(ConfigError, match="read, and not written"):
        Appended().sealer(ITEMS, MySqlValues(), RawRecord(0, 1, None, None), {}, None)  # type: ignore[arg-type]


# ---- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read"),
    [
        *(("1.50", Decimal("1.50")), ("-1.5", Decimal("-1.5")), ("0", Decimal(0)), ("7", Decimal(7))),
        *(("1.505", None), ("1,5", None), ("", None), ("NaN", None), ("1e3", None), ("٣", None), (" 1", None)),
    ],
)
def test_a_decimal_as_text_is_digits_with_no_more_of_them_than_declared(text: str, read: Decimal | None) -> None:
    own = column("c", "decimal(5,2)", precision=5, scale=2)
    how = MySqlValues(DecodeModes(decimal="string")).value(own)
    if read is not None:
        assert how.read(text) == read
        return
    with pytest.raises(NoValueError):
        how.read(text)


def test_a_point_is_written_with_its_ordinates_and_nothing_else_is_a_point() -> None:
    """WKB of a point: a byte for the order of bytes, 1 for the least first, four for its kind, two doubles."""
    write = MySqlValues().value(column("c", "point")).write
    assert write is not None
    wkb = struct.pack("<bIdd", 1, 1, 2.5, -3.5)
    assert write({"wkb": wkb, "srid": 4326}) == {"x": 2.5, "y": -3.5, "wkb": wkb, "srid": 4326}
    without: Any = write({"wkb": wkb, "srid": 0})
    assert without["srid"] is None
    for wrong in (wkb[:-1], wkb + b"\0", b"\0" + wkb[1:], b""):
        with pytest.raises(NoValueError):
            write({"wkb": wrong, "srid": 0})
