"""Spark writes the canonical text of every logical type as the reference does, whatever source the value came from."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as Number
from typing import TYPE_CHECKING

import pytest

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
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Uuid,
)
from airflow_cdc.decisions.compare.canonical import in_key, row_text
from airflow_cdc.spark_apps.canonical.spark import text
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.driver.sql import literal
from airflow_cdc.spark_apps.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - LocalDateTime has no zone
_UUID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
TEXTS = ("", "N", "|", "a|1", "é😀", "'\\", "1|a", "x" * 300)
BYTES = (b"", b"\x00", b"\xff|N", bytes(range(256)))

# type → (value, the Spark SQL that makes it)
CASES: dict[LogicalType, list[tuple[object, str]]] = {
    Integer(8): [(-128, "-128"), (0, "0"), (127, "127")],
    Integer(32, unsigned=True): [(2**32 - 1, "4294967295")],
    Integer(64): [(-(2**63), "-9223372036854775808"), (2**63 - 1, "9223372036854775807")],
    Integer(64, unsigned=True): [(2**64 - 1, "18446744073709551615"), (0, "0")],
    Bits(1): [(1, "1")],
    Bits(64): [(2**64 - 1, "18446744073709551615")],
    Time(): [(-500_000, "-500000"), (3020399000000, "3020399000000")],
    Boolean(): [(True, "true"), (False, "false")],
    Decimal(9, 2): [(Number("-1.23"), "'-1.23'"), (Number(0), "'0'"), (Number("9999999.99"), "'9999999.99'")],
    Decimal(18, 18): [(Number("0.000000000000000001"), "'0.000000000000000001'")],
    Decimal(19, 2): [(Number("-0.5"), "'-0.5'"), (Number(1), "'1'")],
    Decimal(38, 30): [(Number("1E-30"), f"'0.{'0' * 29}1'"), (Number(-12345678), "'-12345678'")],
    Decimal(40, 3): [(Number("-0.001"), "'-0.001'"), (Number(f"{'9' * 37}.500"), f"'{'9' * 37}.500'")],
    Float(32): [(0.5, "0.5D"), (-3.0, "-3.0D")],
    Float(64): [(0.1, "0.1D"), (0.0, "-0.0D"), (-1e300, "-1e300D"), (5e-324, "5e-324D")],
    Date(): [(dt.date(1, 1, 1), "'0001-01-01'"), (dt.date(9999, 12, 31), "'9999-12-31'")],
    LocalDateTime(): [
        (_EPOCH - dt.timedelta(microseconds=1), "'1969-12-31 23:59:59.999999'"),
        (_EPOCH + dt.timedelta(days=2932896, seconds=86399, microseconds=999999), "'9999-12-31 23:59:59.999999'"),
    ],
    Instant(): [(dt.datetime(2021, 10, 31, 0, 30, tzinfo=dt.UTC), "'2021-10-31 02:30:00+02:00'")],
    Text(): [(value, literal(value)) for value in TEXTS],
    Text(long=True): [(value, literal(value)) for value in TEXTS],
    Bytes(): [(value, f"X'{value.hex()}'") for value in BYTES],
    Bytes(long=True): [(value, f"X'{value.hex()}'") for value in BYTES],
    Uuid(): [(_UUID, literal(_UUID)), (_UUID, literal(_UUID.upper()))],
    Geometry(): [((4326, b"wkb"), "named_struct('srid', 4326, 'wkb', X'776b62')"), ((0, b""), "named_struct('srid', 0, 'wkb', X'')")],
    Array(Integer()): [([], "array()"), ([1, None, -2], "array(1, NULL, -2)")],
    Array(Text()): [([""], "array('')"), (["a|", None, "N"], "array('a|', NULL, 'N')")],
    Array(Array(Text(long=True))): [([[], ["x", None]], "array(array(), array('x', NULL))"), ([None], "array(NULL)")],
}  # fmt: skip


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    register_functions(spark)
    return spark


@pytest.mark.parametrize("kind", CASES, ids=str)
def test_a_value_is_written_as_the_reference_writes_it(session: SparkSession, kind: LogicalType) -> None:
    cases = [*CASES[kind], (None, "NULL")]
    rows = ", ".join(f"({n}, CAST({sql} AS {spark_type(kind)}))" for n, (_, sql) in enumerate(cases))
    for written in {kind, in_key(kind)}:
        # a neighbour on both sides: whatever is left out or too much shows in the text
        expression = text([(Integer(), "n"), (written, "v"), (Integer(), "n")])
        query = f"SELECT {expression} FROM VALUES {rows} AS t(n, v) ORDER BY n"
        ours = [row[0] for row in session.sql(query).collect()]
        theirs = [row_text([(Integer(), n), (written, v), (Integer(), n)]) for n, (v, _) in enumerate(cases)]
        assert ours == [each.decode() for each in theirs]


def test_every_type_that_can_be_compared_is_here() -> None:
    from airflow_cdc.decisions.compare import canonical
    from airflow_cdc.spark_apps.canonical import spark as encoding

    assert {type(kind) for kind in CASES} == set(canonical._WRITE) == {*encoding._TABLE, Array}
