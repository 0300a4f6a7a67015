"""How columns become fields, names become indexes, and events become versions; without a server."""

from __future__ import annotations

import pytest

from airflow_cdc.core.errors import ConfigError, SchemaError, SinkError
from airflow_cdc.core.stamp import READ_EPOCH, Stamp
from airflow_cdc.core.table import Column, NativeColumn, Table
from airflow_cdc.core.types import (
    Array,
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    Json,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Uuid,
)
from airflow_cdc.hooks.opensearch import CdcOpenSearchHook
from airflow_cdc.sinks.opensearch.indexes import index_of
from airflow_cdc.sinks.opensearch.mapping import check_keyed, field, properties
from airflow_cdc.sinks.opensearch.versions import MOST_EPOCHS, MOST_OFFSETS, epoch_of, of_event, of_read


def table(name: str, kind: LogicalType, *key: str) -> Table:
    return Table("shop", "t", (Column(name, 1, kind, NativeColumn("any", "any")),), key)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Integer(64), "long"),
        (Integer(32, unsigned=True), "long"),
        (Integer(64, unsigned=True), "unsigned_long"),
        (Bits(63), "long"),
        (Bits(64), "unsigned_long"),
        (Decimal(12, 2), "keyword"),
        (Float(), "double"),
        (Boolean(), "boolean"),
        (Text(), "text"),
        (Text(long=True), "text"),
        (Json(), "text"),
        (Bytes(), "binary"),
        (Date(), "date"),
        (Time(), "long"),
        (LocalDateTime(), "date"),
        (Instant(), "date"),
        (Uuid(), "keyword"),
        (Array(Array(Date())), "date"),
    ],
)
def test_every_type_has_a_field(kind: LogicalType, expected: str) -> None:
    assert field(kind)["type"] == expected


def test_a_geometry_is_an_object() -> None:
    assert field(Geometry()) == {"properties": {"srid": {"type": "integer"}, "wkb": {"type": "binary"}}}


@pytest.mark.parametrize("name", ["a.b", "_id", "_source", "cdc_id", "cdc_deleted"])
def test_a_column_that_cannot_be_a_field_is_refused_by_name(name: str) -> None:
    with pytest.raises(SchemaError, match=name):
        properties(table(name, Text()))


def test_a_table_without_a_key_is_refused_by_name() -> None:
    with pytest.raises(SchemaError, match=r"without a primary key.*shop\.t"):
        check_keyed(table("id", Integer()))
    check_keyed(table("id", Integer(), "id"))


def test_versions_are_ordered_by_epoch_and_then_by_offset() -> None:
    ordered = [of_read(0), of_event(0, 0), of_event(0, MOST_OFFSETS - 1), of_read(1), of_event(1, 0), of_event(1, 1)]
    assert ordered == sorted(set(ordered))
    assert of_event(MOST_EPOCHS - 1, MOST_OFFSETS - 1) == 2**63 - 1


@pytest.mark.parametrize(("epoch", "offset"), [(MOST_EPOCHS, 0), (-1, 0), (0, MOST_OFFSETS), (0, -1)])
def test_what_does_not_fit_into_a_version_is_refused(epoch: int, offset: int) -> None:
    with pytest.raises(SinkError, match="does not fit"):
        of_event(epoch, offset)


def test_the_epoch_is_that_of_the_stamp_or_of_the_read() -> None:
    assert epoch_of(Stamp(7).to_summary()) == 7
    assert epoch_of({READ_EPOCH: "6"}) == 6
    assert epoch_of({}) == 0


def test_tables_that_differ_only_in_case_have_their_own_indexes() -> None:
    one, other = index_of("shop", "Orders", "first"), index_of("shop", "orders", "first")
    assert one != other
    assert one == one.lower()


def test_a_connection_becomes_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_S",
        '{"conn_type": "cdc_opensearch", "host": "h", "login": "u", "password": "hush", "extra": {"replicas": 0}}',
    )
    endpoint = CdcOpenSearchHook("s").endpoint()
    assert (endpoint.url, endpoint.user, endpoint.shards, endpoint.replicas) == ("https://h:9200", "u", 1, 0)
    assert "hush" not in repr(endpoint)


@pytest.mark.parametrize("bad", ['"schema": "ftp"', '"extra": {"shards": 0}', '"extra": {"replicas": "many"}'])
def test_a_connection_that_is_wrong_is_refused(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_S", f'{{"conn_type": "cdc_opensearch", "host": "h", {bad}}}')
    with pytest.raises(ConfigError, match=r"schema|shards|replicas"):
        CdcOpenSearchHook("s").endpoint()
