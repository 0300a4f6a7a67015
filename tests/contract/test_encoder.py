"""What we write is what the connector's own snapshot writes of the same row, byte by byte but for times and the place.

The records are those of real connectors (tests/data/wires/*-snapshot-*), which began with a snapshot of a table with a
column of each type. Each row is decoded, and written again like another record of its topic.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.events.frames import frame_of
from airflow_cdc.core import types
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.types import Bits, Bytes, Date, Float, Geometry, Instant, Integer, Json, LocalDateTime, Time
from airflow_cdc.events.columns import arrow_of
from airflow_cdc.events.decoder import AFTER, Plan, decoder
from airflow_cdc.events.encoder import encoder, logical
from airflow_cdc.events.frame import Standing
from airflow_cdc.events.record import (
    DELETE,
    READ,
    SNAPSHOT_BEGINS,
    SNAPSHOT_GOES_ON,
    Opened,
    RawRecord,
    Record,
    SchemaId,
    Side,
    Want,
)
from airflow_cdc.events.value import document
from airflow_cdc.events.wire import Schemas
from airflow_cdc.events.wire.decimals import WIDE
from airflow_cdc.events.wire.json_draft import float_of, json_of, text_of
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.sources.mysql.types import words_of
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from tests.wires import Recorded, recording

SOURCES = ("mysql", "postgres")
IN_JSON = tuple(f"{source}-snapshot-{form}" for source in SOURCES for form in ("wrapped", "bare"))
REGISTERED = tuple(f"{source}-snapshot-registered" for source in SOURCES)
SNAPSHOTS = (*IN_JSON, *REGISTERED)
MICROS_OF = 1_800_000_000_000_000
PLACES = {
    "mysql": Standing(
        {"file": "mysql-bin.000009", "pos": 4711, "gtids": "u:1-5"}, MICROS_OF, MySqlPosition("mysql-bin.000009", 4711)
    ),
    "postgres": Standing(
        {"lsn": 4711, "lsn_proc": 4711, "lsn_commit": 4711},
        MICROS_OF,
        PgPosition(Lsn(4711), snapshot="795:4294967399:795"),
    ),
}
# what a record says of the place
PLACED = {
    "mysql": {"file": "mysql-bin.000009", "pos": 4711},
    "postgres": {"lsn": 4711, "txId": 103, "sequence": '[null,"4711"]'},
}
# parts of a record that say when, and where in the log
WHERE = rb"ts_(?:ms|us|ns)|file|pos|lsn|txId|sequence"
TEXT = rb'"(?:[^"\\]|\\.)*"'
TIMES = re.compile(rb'"(' + WHERE + rb')":(?:' + TEXT + rb"|-?\d+|null)")
FLAT_TIMES = re.compile(rb'"(__(?:source_)?(?:' + WHERE + rb'))":(?:' + TEXT + rb"|-?\d+|null)")
# labels with commas and backslashes: the connector's snapshot writes them otherwise than its log
REFUSED = ("e", "s")
# MySQL prints a document, and we write the one text of it
DOCUMENTS = ("j",)


def source_of(name: str) -> str:
    return name.partition("-")[0]


def table_of(name: str, table: str, *, without: tuple[str, ...] = ()) -> Table:
    return left_out(Table.from_json(json.loads(recording(name).definitions[table])), without)


def left_out(table: Table, names: tuple[str, ...]) -> Table:
    return replace(table, columns=tuple(column for column in table.columns if column.name not in names))


def settings_of(name: str) -> ConnectorSettings:
    hidden = {"database.hostname": "h", "database.port": "1", "database.user": "u", "database.password": "p"}
    return ConnectorSettings.from_config({**recording(name).settings, **hidden})


def schemas_of(name: str) -> Schemas:
    texts = {}
    for key, answer in recording(name).schemas.items():
        kind, _, number = key.partition(":")
        texts[SchemaId(kind, int(number))] = answer["schema"]
    return texts


def rows_of(name: str, table: Table, records: Sequence[Recorded]) -> pa.Table:
    settings = settings_of(name)
    plan = Plan(table, frame_of(settings, table.full_name), settings.values).with_schemas(schemas_of(name))
    batch = decoder(plan).batch(records)
    assert set(batch.column("bad").to_pylist()) == {None}
    after = batch.column(AFTER)
    return pa.table([after.field(at) for at in range(len(table.mirrored))], [one.name for one in table.mirrored])


def snapshot(name: str, table: str) -> tuple[Recorded, ...]:
    """The rows of the snapshot, without the change that came behind it."""
    own = recording(name).records[table]
    return tuple(own[:-1] if table == "t" else own)


def written(name: str, table: Table, template: Record, changes: Iterable[Opened]) -> list[Any]:
    settings = settings_of(name)
    seal = frame_of(settings, table.full_name).sealer(
        table, settings.values, template, schemas_of(name), PLACES[source_of(name)]
    )
    return [sealed for change in changes for sealed in seal(change)]


def parts(value: bytes | None) -> dict[str, bytes]:
    """The fields of a JSON object as they are written."""
    return {name: bytes(one) for name, one in msgspec.json.decode(value or b"", type=dict[str, msgspec.Raw]).items()}


def event(value: bytes | None) -> dict[str, bytes]:
    whole = parts(value)
    return parts(whole["payload"]) if "payload" in whole else whole


def told(value: bytes | None) -> bytes:
    """A record without what it says of times and the log, and of the place of a row in its snapshot."""
    return re.sub(rb'"snapshot":"\w+"', b'"snapshot":"true"', TIMES.sub(rb"\1", value or b""))


@pytest.mark.parametrize("name", IN_JSON)
def test_a_record_is_the_snapshot_s_own_byte_by_byte(name: str) -> None:
    """It is made of a streamed change, and is the row's record of the snapshot: key, headers, schema, order of fields."""
    table, records = table_of(name, "t"), snapshot(name, "t")
    changes = encoder(table, settings_of(name).values).changes(rows_of(name, table, records))
    sealed = written(name, table, recording(name).records["t"][-1], changes)
    assert len(sealed) == len(records) == 3
    for ours, theirs in zip(sealed, records, strict=True):
        assert (ours.key, ours.headers, told(ours.value)) == (theirs.key, theirs.headers, told(theirs.value))
        source = json.loads(event(ours.value)["source"])
        placed = PLACED[source_of(name)]
        assert {"snapshot": "true", **placed} == {part: source[part] for part in ("snapshot", *placed)}


@pytest.mark.parametrize("name", ["mysql-snapshot-unwrapped", "postgres-snapshot-unwrapped"])
def test_a_flattened_row_is_the_snapshot_s_own_and_a_ghost_its_row_marked_as_deleted(name: str) -> None:
    table, records = table_of(name, "t"), snapshot(name, "t")
    template = recording(name).records["t"][-1]
    changes = encoder(table, settings_of(name).values).changes(rows_of(name, table, records))
    for ours, theirs in zip(written(name, table, template, changes), records, strict=True):
        unsnapped = re.sub(rb'"__source_snapshot":"\w+"', b'"__source_snapshot":"true"', theirs.value or b"")
        assert (ours.key, ours.headers) == (theirs.key, theirs.headers)
        assert FLAT_TIMES.sub(rb"\1", ours.value or b"") == FLAT_TIMES.sub(rb"\1", unsnapped)
    (delete,) = written(name, table, records[1], [Opened(DELETE)])
    row = event(delete.value)
    assert delete.key == records[1].key
    assert [json.loads(row[one]) for one in ("id", "v", "__deleted", "__op")] == [2, None, "true", "d"]
    settings = settings_of(name)
    batch = decoder(Plan(table, frame_of(settings, table.full_name), settings.values)).batch([RawRecord(0, 7, *delete)])
    assert (batch.column("op").to_pylist(), batch.column("bad").to_pylist()) == ([DELETE], [None])


def avro_of(name: str, data: bytes | None) -> Any:
    """A message by the registry's schema, without a line of the product's."""
    assert data is not None
    number = int.from_bytes(data[1:5], "big")
    return fastavro.schemaless_reader(
        BytesIO(data[5:]), json.loads(schemas_of(name)[SchemaId("contentId", number)]), None
    )


def image(name: str, side: str, value: bytes | None) -> Any:
    """A row in an event, without a line of the product's."""
    return avro_of(name, value)[side] if name in REGISTERED else event(value)[side]


@pytest.mark.parametrize("name", REGISTERED)
def test_avro_is_written_by_the_schema_of_the_newest_record(name: str) -> None:
    table, records = table_of(name, "t"), snapshot(name, "t")
    changes = encoder(table, settings_of(name).values).changes(rows_of(name, table, records))
    for ours, theirs in zip(written(name, table, recording(name).records["t"][-1], changes), records, strict=True):
        assert (ours.key, ours.headers) == (theirs.key, theirs.headers)
        assert (ours.value or b"")[:5] == (theirs.value or b"")[:5]
        mine, own = avro_of(name, ours.value), avro_of(name, theirs.value)
        for moved in ("ts_ms", "ts_us", "ts_ns"):
            assert mine.pop(moved) > own.pop(moved) > 0
        placed = PLACED[source_of(name)]
        assert {part: mine["source"].pop(part) for part in placed} == placed
        for moved in ("ts_ms", "ts_us", "ts_ns", "snapshot"):
            mine["source"].pop(moved), own["source"].pop(moved)
        for moved in placed:
            own["source"].pop(moved)
        assert mine == own


@pytest.mark.parametrize("name", ["mysql-snapshot-wrapped", "mysql-snapshot-bare"])
def test_each_type_is_written_as_the_connector_s_snapshot_writes_it(name: str) -> None:
    """But for a document of JSON, which is equal as one, and a double in which Java 17 needs a digit more for the same number."""
    table, records = table_of(name, "every", without=REFUSED), recording(name).records["every"]
    values, rows = settings_of(name).values, rows_of(name, table_of(name, "every"), records)
    compared, longer = 0, 0
    for column in table.mirrored:
        value = values.value(column)
        assert value.write is not None, column.name
        for logic, record in zip(logical(rows[column.name]), records, strict=True):
            ours = json_of(value.written, None if logic is None else value.write(logic)).encode()
            theirs = parts(event(record.value)["after"])[column.name]
            if column.name in DOCUMENTS and logic is not None:
                assert document(json.loads(ours)) == document(json.loads(theirs))
            elif ours != theirs and column.name == "db":
                assert float(ours) == float(theirs)
                longer += 1
            else:
                assert ours == theirs, column.name
            compared += 1
    assert compared > 1300
    assert longer == 1


def test_labels_that_the_log_and_a_snapshot_write_differently_are_refused_by_name() -> None:
    name = "mysql-snapshot-wrapped"
    with pytest.raises(SchemaError, match="values of e, s can't be written"):
        encoder(table_of(name, "every"), settings_of(name).values)


def test_a_record_of_other_columns_is_no_template() -> None:
    name = "mysql-snapshot-wrapped"
    other = replace(table_of(name, "t"), columns=table_of(name, "t").columns[:2])
    with pytest.raises(SchemaError, match=r"has the row \(id, v, n\), and the table now has \(id, v\)"):
        written(name, other, recording(name).records["t"][-1], [Opened(READ, key=[1], after=[1, None])])


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_ghost_from_before_an_alter_is_deleted_with_the_columns_that_it_had(name: str) -> None:
    """No record of it with the new columns will ever come."""
    whole, last = table_of(name, "t"), recording(name).records["t"][0]
    added = replace(whole.columns[-1], name="added_since", ordinal=len(whole.columns) + 1)
    now = replace(whole, columns=(*whole.columns, added))
    for table in (now, replace(whole, columns=whole.columns[:2])):
        delete, tombstone = written(name, table, last, [Opened(DELETE)])
        assert delete.key == tombstone.key == last.key
        assert image(name, "before", delete.value) == image(name, "after", last.value)


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_ghost_is_deleted_by_an_event_and_a_tombstone_under_its_own_key(name: str) -> None:
    table, last = table_of(name, "t"), recording(name).records["t"][0]
    delete, tombstone = written(name, table, last, [Opened(DELETE)])
    assert delete.key == tombstone.key == last.key
    assert tombstone.value is None
    settings = settings_of(name)
    plan = Plan(table, frame_of(settings, table.full_name), settings.values, Want(Side.ROW, Side.ROW))
    batch = decoder(plan.with_schemas(schemas_of(name))).batch([RawRecord(0, 7, *delete)])
    assert batch.column("op").to_pylist() == [DELETE]
    assert batch.column("bad").to_pylist() == [None]
    assert batch.column("snapshot").to_pylist() == [None]
    before, after = image(name, "before", delete.value), image(name, "after", last.value)
    assert before == after
    assert before is not None


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_inv_05_a_correction_begins_no_snapshot_of_the_connector_s_own(name: str) -> None:
    """Whoever counts snapshots that nobody asked for counts their first records. The recorded one has a first."""
    table, records, settings = table_of(name, "t"), snapshot(name, "t"), settings_of(name)
    changes = encoder(table, settings.values).changes(rows_of(name, table, records))
    ours = written(name, table, recording(name).records["t"][-1], changes)
    read = decoder(Plan(table, frame_of(settings, table.full_name), settings.values).with_schemas(schemas_of(name)))
    said = read.batch([RawRecord(0, at, *one) for at, one in enumerate(ours)])
    assert said.column("snapshot").to_pylist() == [SNAPSHOT_GOES_ON] * 3
    assert SNAPSHOT_BEGINS in read.batch(records).column("snapshot").to_pylist()


# ---- what is written is read again as the same row ---------------------------------------------------

BARE = "mysql-snapshot-bare"
WHOLE = table_of(BARE, "every", without=REFUSED)
FIRST = recording(BARE).records["every"][0]
DAY, MICROS = (-719162, 2932896), (-62135596800000000, 253402300799999999)


def texts(most: int = 12) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=most)


def of_type(column: Column) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911 - a table of types
    words = words_of(column)
    match column.type:
        case Integer(bits, unsigned):
            if words.data_type == "year":
                return st.just(0) | st.integers(1901, 2155)
            low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            whole = st.integers(low, high)
            return whole.map(Decimal) if bits == 64 and unsigned else whole
        case Bits(size):
            return st.integers(0, 2**size - 1).map(Decimal if size == 64 else int)
        case types.Decimal(precision, scale):
            number = st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: Decimal(n).scaleb(-scale, WIDE))
            return number if precision <= 38 else number.map(lambda n: f"{n:.{scale}f}")
        case Float(bits):
            return st.floats(width=32 if bits == 32 else 64, allow_nan=False, allow_infinity=False)
        case Bytes():
            length = words.byte_length if words.data_type == "binary" else None
            return st.binary(min_size=length or 0, max_size=length or 20)
        case Date():
            return st.integers(*DAY)
        case LocalDateTime():
            each = 10 ** (6 - (words.fsp or 0)) if (words.fsp or 0) > 3 else 1000
            return st.integers(MICROS[0] // each, MICROS[1] // each).map(lambda n: n * each)
        case Instant():
            each = 10 ** (6 - (words.fsp or 0))
            return st.integers(1_000_000 // each, (2**31 - 1) * 1_000_000 // each).map(lambda n: n * each)
        case Time():
            return st.integers(-3020399000000, 3020399000000)
        case Json():
            return st.recursive(
                st.none() | st.booleans() | st.integers() | texts(), lambda one: st.lists(one, max_size=3)
            ).map(lambda one: document(json.dumps(one)))
        case Geometry():
            ordinate = st.floats(allow_nan=False, allow_infinity=False)
            point = st.tuples(ordinate, ordinate).map(lambda xy: struct.pack("<bIdd", 1, 1, *xy))
            return st.fixed_dictionaries({"srid": st.integers(0, 4326), "wkb": point})
    return texts().filter(lambda text: "\ufffd" not in text and not re.search("[\u2014\uff3c]", text))


def rows() -> st.SearchStrategy[dict[str, Any]]:
    fields = {
        column.name: of_type(column) if not column.nullable else st.none() | of_type(column)
        for column in WHOLE.mirrored
    }
    return st.fixed_dictionaries(fields)


def read_again(name: str, table: Table, template: Record, row: Mapping[str, Any]) -> None:
    """Write the row as a record like the template, read that record, and compare every value, also the signs of zeros."""
    settings = settings_of(name)
    arrow = pa.table(
        {column.name: pa.array([row[column.name]], arrow_of(column.value_type)) for column in table.mirrored}
    )
    (sealed,) = written(name, table, template, encoder(table, settings.values).changes(arrow))
    plan = Plan(table, frame_of(settings, table.full_name), settings.values)
    batch = decoder(plan).batch([RawRecord(0, 1, *sealed)])
    assert batch.column("bad").to_pylist() == [None]
    assert batch.column("op").to_pylist() == [READ]
    read = batch.column(AFTER)
    for at, column in enumerate(table.mirrored):
        (mine,), (again,) = logical(arrow[column.name]), logical(read.field(at))
        same = mine == again and not (
            isinstance(mine, float) and isinstance(again, float) and math.copysign(1, mine) != math.copysign(1, again)
        )
        assert same, (column.name, mine, again)


@given(rows())
def test_what_is_written_is_read_as_the_same_row(row: dict[str, Any]) -> None:
    read_again(BARE, WHOLE, FIRST, row)


@pytest.mark.parametrize(
    ("number", "single", "text"),
    [
        (1e10, False, "1.0E10"), (0.001, False, "0.001"), (1e-3 / 10, False, "1.0E-4"), (5e-324, False, "4.9E-324"),
        (1e7, False, "1.0E7"), (9999999.0, False, "9999999.0"), (-0.0, False, "-0.0"), (123456.5, False, "123456.5"),
        (0.1, True, "0.1"), (3.4028234663852886e38, True, "3.4028235E38"), (float("nan"), False, '"NaN"'),
    ],
)  # fmt: skip
def test_numbers_are_java_s(number: float, single: bool, text: str) -> None:
    if single:
        number = struct.unpack("<f", struct.pack("<f", number))[0]
    assert float_of(number, single=single) == text


def test_characters_beyond_the_first_plane_are_halves() -> None:
    assert text_of('😀é\x1f"\\\n\u2028') == '"\\uD83D\\uDE00é\\u001F\\"\\\\\\n\u2028"'
