"""What we write of PostgreSQL's types is what Debezium's own snapshot writes of the same row (see test_encoder.py).

How a row is read for it is tested on a real server (tests/integration/postgres/test_encoder.py).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.connectors.debezium.events.postgres import PLACEHOLDER, PostgresValues
from airflow_cdc.core import types
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.types import Array, Bits, Boolean, Bytes, Date, Float, Instant, Integer, LocalDateTime, Time
from airflow_cdc.events.encoder import encoder
from airflow_cdc.events.record import RawRecord
from airflow_cdc.events.value import NoValueError, Shape, Value, Values, Wire, document
from airflow_cdc.events.wire.decimals import WIDE
from airflow_cdc.events.wire.json import Json
from airflow_cdc.events.wire.json_draft import json_of
from airflow_cdc.sources.postgres.types import words_of
from tests.contract.test_encoder import (
    DAY,
    MICROS,
    event,
    left_out,
    parts,
    read_again,
    settings_of,
    table_of,
    texts,
)
from tests.wires import recording

WRAPPED, BARE = "postgres-snapshot-wrapped", "postgres-snapshot-bare"
# declared types that are refused whatever the modes are; of a bpchar without a length nobody knows the blanks at its end
REFUSED: Final = {
    "bit(65)", "bit varying(70)", "time with time zone", '"char"', "name", "tstzrange", "int4multirange", "tsvector",
    "numeric(6,2)[]", "timestamp with time zone[]", "public.mood[]", "bpchar",
}  # fmt: skip


def value_of(values: Values, column: Column) -> Value | None:
    """How a column is written; None where it is refused by name."""
    try:
        value = values.value(column)
    except SchemaError as error:
        if column.name not in str(error):
            raise
        return None
    return value if value.write is not None else None


def every(name: str) -> tuple[Table, tuple[str, ...]]:
    """The table of each type without the columns that are refused, and their names."""
    values, whole = settings_of(name).values, table_of(name, "every")
    refused = tuple(column.name for column in whole.columns if value_of(values, column) is None)
    return left_out(whole, refused), refused


@pytest.mark.parametrize(("name", "more"), [(WRAPPED, {"numeric"}), (BARE, set[str]())])
def test_what_is_refused_is_this_table_of_types(name: str, more: set[str]) -> None:
    whole, (_, refused) = table_of(name, "every"), every(name)
    assert {column.native.type for column in whole.columns if column.name in refused} == REFUSED | more


def test_a_blank_padded_text_without_a_length_is_refused_by_name() -> None:
    table, refused = every(BARE)
    padded = left_out(table_of(BARE, "every"), tuple(name for name in refused if name != "bp"))
    with pytest.raises(SchemaError, match="values of bp can't be written"):
        encoder(padded, settings_of(BARE).values)
    assert encoder(table, settings_of(BARE).values).table == table


@pytest.mark.parametrize(("name", "least"), [(WRAPPED, 130), (BARE, 135)])
def test_each_type_is_written_as_the_connector_s_snapshot_writes_it(name: str, least: int) -> None:
    """But for a document of hstore, which is equal as one, and a double in which Java 17 needs a digit more (-1e23)."""
    table, _ = every(name)
    values, records, compared, longer = settings_of(name).values, recording(name).records["every"], 0, 0
    row = Shape(Wire.STRUCT, tuple((one.name, values.value(one).shape) for one in table.mirrored))
    read = Json(wrapped=name == WRAPPED).reader(Shape(Wire.STRUCT, (("after", row),)), {})
    for record in records:
        (wires,) = read(record.value or b"", ())
        theirs = parts(event(record.value)["after"])
        for column, wire in zip(table.mirrored, wires, strict=True):
            value = values.value(column)
            assert value.write is not None
            ours = json_of(value.written, None if wire is None else value.write(value.read(wire))).encode()
            if column.name == "h" and wire is not None:
                assert document(json.loads(ours)) == document(json.loads(theirs[column.name]))
            elif ours != theirs[column.name] and column.name == "f":
                assert float(ours) == float(theirs[column.name])
                longer += 1
            else:
                assert ours == theirs[column.name], column
            compared += wire is not None
    assert longer == 1
    assert compared >= least


# ---- what is written is read again as the same row ---------------------------------------------------

WHOLE, _ = every(BARE)
FIRST = recording(BARE).records["every"][0]
# of these texts any is written; others have a form of their own
ANY: Final = frozenset({"text", "varchar", "citext", "bpchar"})


def of_type(column: Column, kind: types.LogicalType) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911 - a table of types
    words = words_of(column.native)
    digits = words.get("modifier", -1)
    match kind:
        case Boolean():
            return st.booleans()
        case Integer(bits):
            least, most = (0, 2**32 - 1) if words["type"] == "oid" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            return st.integers(least, most)
        case Bits(size):
            return st.integers(0, 2**size - 1).map(Decimal if size == 64 else int)
        case types.Decimal(precision, scale):
            number = st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: Decimal(n).scaleb(-scale, WIDE))
            return number if precision <= 38 else number.map(lambda n: f"{n:.{scale}f}")
        case Float(bits):
            return st.floats(width=32 if bits == 32 else 64, allow_nan=False)
        case Bytes():
            return st.binary(max_size=20)
        case Date():
            return st.integers(*DAY)
        case LocalDateTime() | Instant():
            each = 10 ** (6 - (digits if digits >= 0 else 6))
            return st.integers(MICROS[0] // each, MICROS[1] // each).map(lambda n: n * each)
        case Time():
            return st.integers(0, 86400_000_000)
        case Array(of):
            return st.just([]) | st.lists(st.none() | of_type(column, of), max_size=4).map(
                lambda own: [*own, 1 if isinstance(of, Integer) else "a"]
            )
        case types.Json():
            return st.dictionaries(texts(), st.none() | texts(), max_size=3).map(lambda one: document(json.dumps(one)))
    if words["type"] == "numeric":
        numbers = st.decimals(allow_nan=False, allow_infinity=False, places=5)
        return numbers.map(lambda n: f"{n:f}") | st.sampled_from(["NaN", "Infinity", "-Infinity"])
    # a char(n) is read without its blanks, and has no more characters than that
    return texts(3).map(lambda text: text.rstrip(" ")) if words["type"] == "bpchar" else texts()


def rows() -> st.SearchStrategy[dict[str, Any]]:
    def field(column: Column) -> st.SearchStrategy[Any]:
        own = of_type(column, column.value_type)
        return st.none() | own if column.nullable else own

    return st.fixed_dictionaries({column.name: field(column) for column in WHOLE.mirrored})


@given(rows())
def test_what_is_written_is_read_as_the_same_row(row: dict[str, Any]) -> None:
    template = json.dumps(_bare(FIRST.value)).encode()
    read_again(BARE, WHOLE, RawRecord(0, 1, FIRST.key, template), row)


def _bare(value: bytes | None) -> Any:
    """An event of the table as it would be without the columns that are refused."""
    whole, names = json.loads(value or b""), {column.name for column in WHOLE.columns}
    return whole | {"after": {name: one for name, one in whole["after"].items() if name in names}}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("c29", PLACEHOLDER), ("c32", PLACEHOLDER.encode()), ("c51", [None]), ("c50", [None, None]), ("c51", [PLACEHOLDER]),
        ("c50", list(PLACEHOLDER.encode())), ("padded", PLACEHOLDER), ("ts5", 253402300800000000), ("c11", "1e400"),
    ],
)  # fmt: skip
def test_a_value_that_would_be_read_as_another_is_refused(column: str, value: Any) -> None:
    """A placeholder is read as no value at all, as are arrays of NULLs alone; years end with 9999."""
    settings = settings_of(BARE)
    (own,) = (one for one in WHOLE.columns if one.name == column)
    write = settings.values.value(own).write
    assert write is not None
    with pytest.raises((NoValueError, OverflowError)):
        write(value)


@pytest.mark.parametrize("mode", ["bytes", "base64", "base64-url-safe", "hex"])
def test_bytes_are_written_in_each_mode_as_they_are_read(mode: str) -> None:
    (column,) = (one for one in WHOLE.columns if one.name == "c32")
    value = PostgresValues(binary=mode).value(column)
    assert value.write is not None
    assert value.read(value.write(b"\xff\xfe\x00a")) == b"\xff\xfe\x00a"
    with pytest.raises(NoValueError):
        value.write(PLACEHOLDER.encode())


@pytest.mark.parametrize(("mode", "column", "sent"), [
    ("adaptive", "c22", 3723456), ("adaptive_time_microseconds", "c22", 3723456000), ("microseconds", "c22", 3723456000),
    ("adaptive", "ts3", 3723456), ("adaptive_time_microseconds", "ts3", 3723456), ("microseconds", "ts3", 3723456000),
])  # fmt: skip
def test_times_are_written_in_each_mode(mode: str, column: str, sent: int) -> None:
    (own,) = (one for one in WHOLE.columns if one.name == column)
    value = PostgresValues(time=mode).value(own)
    assert value.write is not None
    assert value.write(3723456000) == sent
    assert value.read(sent) == 3723456000


def test_a_time_of_more_digits_than_are_sent_is_refused() -> None:
    """A column whose declared precision changed since its definition was read."""
    (own,) = (one for one in WHOLE.columns if one.name == "ts3")
    write = PostgresValues().value(own).write
    assert write is not None
    with pytest.raises(NoValueError):
        write(3723456001)
