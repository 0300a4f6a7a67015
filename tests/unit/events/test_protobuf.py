"""Protobuf read by the text of its schema, against messages that protobuf's own library writes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_cdc.events.record import Ids, SchemaId, Unreadable
from airflow_cdc.events.value import WRONG, Missing, Shape, Wire
from airflow_cdc.events.wire.ids import CONTENT_ID, Framing
from airflow_cdc.events.wire.proto_text import ProtoField, parse
from airflow_cdc.events.wire.protobuf import Protobuf

SCALARS = {
    "double": (Wire.FLOAT64, st.floats(allow_nan=False)),
    "float": (Wire.FLOAT32, st.floats(allow_nan=False, width=32)),
    "int64": (Wire.INT, st.integers(-(2**63), 2**63 - 1)),
    "uint64": (Wire.INT, st.integers(0, 2**64 - 1)),
    "int32": (Wire.INT, st.integers(-(2**31), 2**31 - 1)),
    "fixed64": (Wire.INT, st.integers(0, 2**64 - 1)),
    "fixed32": (Wire.INT, st.integers(0, 2**32 - 1)),
    "bool": (Wire.BOOLEAN, st.booleans()),
    "string": (Wire.STRING, st.text()),
    "bytes": (Wire.BYTES, st.binary()),
    "uint32": (Wire.INT, st.integers(0, 2**32 - 1)),
    "sfixed32": (Wire.INT, st.integers(-(2**31), 2**31 - 1)),
    "sfixed64": (Wire.INT, st.integers(-(2**63), 2**63 - 1)),
    "sint32": (Wire.INT, st.integers(-(2**31), 2**31 - 1)),
    "sint64": (Wire.INT, st.integers(-(2**63), 2**63 - 1)),
}
KINDS = list(SCALARS)
# each scalar as a field that is never NULL, one that may be, and a list
LINES = [
    f"  {label}{kind} {name}_{kind} = {3 * at + number};"
    for at, kind in enumerate(KINDS)
    for number, (label, name) in enumerate((("", "some"), ("optional ", "may"), ("repeated ", "many")), 1)
]
TEXT = "\n".join(['syntax = "proto3";', "package p.q;", "message Row {", *LINES, "}"])
FRAMING = Framing(Ids.CONFLUENT, "value")
ID = SchemaId(CONTENT_ID, 7)


def library() -> Any:
    """The same message for protobuf's library, by a descriptor that was not read from the text."""
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="p.q", syntax="proto3")
    message = file.message_type.add(name="Row")
    for at, kind in enumerate(KINDS):
        of = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind.upper()}")
        for number, name in enumerate(("some", "may", "many"), 1):
            field = message.field.add(name=f"{name}_{kind}", number=3 * at + number, type=of, label=1)
            if name == "many":
                field.label = 3
            if name == "may":
                message.oneof_decl.add(name=f"_{field.name}")
                field.proto3_optional, field.oneof_index = True, at
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.q.Row"))


ROW = library()
SHAPE = Shape(
    Wire.STRUCT,
    tuple(
        (f"{name}_{kind}", shape)
        for kind, (wire, _) in SCALARS.items()
        for name, shape in (
            ("some", Shape(wire, missing=Missing.ZERO)),
            ("may", Shape(wire, missing=Missing.UNKNOWN)),
            ("many", Shape(Wire.ARRAY, of=Shape(wire), missing=Missing.ZERO)),
        )
    ),
    whole=True,
)


def read(text: str, message: bytes, shape: Shape, indexes: bytes = b"\0") -> Any:
    return Protobuf(FRAMING).reader(shape, {ID: text})(b"\0\0\0\0\7" + indexes + message, ())


@settings(max_examples=40)
@given(
    values=st.fixed_dictionaries(
        {}, optional={f"{name}_{kind}": own for kind, (_, own) in SCALARS.items() for name in ("some", "may")}
    ),
    lists=st.fixed_dictionaries(
        {}, optional={f"many_{kind}": st.lists(own, max_size=3) for kind, (_, own) in SCALARS.items()}
    ),
)
def test_what_the_library_writes_is_read_as_what_the_library_holds(values: Any, lists: Any) -> None:
    message = ROW(**values, **lists)
    row = dict(zip((name for name, _ in SHAPE.parts), read(TEXT, message.SerializeToString(), SHAPE), strict=True))
    for name, value in row.items():
        if name.startswith("may") and not message.HasField(name):
            assert value is None
        elif name.startswith("many"):
            assert repr(value) == repr(list(getattr(message, name)))
        else:
            assert repr(value) == repr(getattr(message, name))


def test_numbers_of_a_list_may_also_be_written_one_by_one() -> None:
    text = 'syntax = "proto3"; message M { repeated int32 n = 1; }'
    shape = Shape(Wire.STRUCT, (("n", Shape(Wire.ARRAY, of=Shape(Wire.INT))),))
    assert read(text, b"\x08\x01\x08\x02\x0a\x02\x03\x04", shape) == ([1, 2, 3, 4],)


EVERYTHING = """
// a note { that is none
syntax = "proto3"; /* and
one more */
package a.b;
import "confluent/type/decimal.proto";
option java_package = "x;y";
message Other { string not = 1; }
message Outer {
  reserved 4, 9 to 11; reserved "gone";
  option (confluent.message_meta) = { doc: "}" };
  enum Kind { A = 0; B = 1; }
  Kind kind = 1;
  map<string, Inner> named = 2;
  optional .a.b.Outer.Inner inner = 3 [deprecated = true, (confluent.field_meta) = { params: [ { key: "]", value: "1" } ] }];
  oneof choice { int32 left = 5; Inner right = 6; }
  confluent.type.Decimal price = 7;
  repeated Inner several = 8;
  google.protobuf.StringValue wrapped = 12;
  message Inner { message Deep { int64 n = 1; } Deep deep = 1; }
}
"""


def test_of_a_text_the_fields_are_read_and_the_rest_is_gone_past() -> None:
    file = parse(EVERYTHING)
    assert [one.name for one in file.top] == ["a.b.Other", "a.b.Outer"]
    assert file.at((1, 0, 0)).name == "a.b.Outer.Inner.Deep"
    assert file.messages["a.b.Outer"].fields == [
        ProtoField("kind", 1, "enum"),
        ProtoField("named", 2, "", repeated=True),
        ProtoField("inner", 3, "a.b.Outer.Inner", presence=True),
        ProtoField("left", 5, "int32", presence=True),
        ProtoField("right", 6, "a.b.Outer.Inner", presence=True),
        ProtoField("price", 7, "confluent.type.Decimal"),
        ProtoField("several", 8, "a.b.Outer.Inner", repeated=True),
        ProtoField("wrapped", 12, "google.protobuf.StringValue"),
    ]


@pytest.mark.parametrize(
    "text", ["", "{}", "message", "message M {", "message M { int32 n; }", 'edition = "2023";', "message M { int32 n = x; }", "§"]
)  # fmt: skip
def test_another_text_is_no_schema_and_reads_nothing(text: str) -> None:
    with pytest.raises(Unreadable):
        read(text, b"", Shape(Wire.STRUCT))


def test_a_record_names_its_message_by_indexes() -> None:
    """Case: the numbers 1, 0, 0, behind how many they are, in zigzag."""
    shape = Shape(Wire.STRUCT, (("n", Shape(Wire.INT)),))
    assert read(EVERYTHING, b"\x08\x05", shape, b"\x06\x02\x00\x00") == (5,)
    for wrong in (b"\x02\x04", b"\x04\x02\x02", b"\x01", b"\x02\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(Unreadable):
            read(EVERYTHING, b"\x08\x05", shape, wrong)


OUTER = b"\x02\x02"  # the second message


def test_what_converters_make_of_decimals_and_of_nulls() -> None:
    shape = Shape(Wire.STRUCT, (("price", Shape(Wire.DECIMAL, scale=2)), ("wrapped", Shape(Wire.STRING))))
    decimal = {
        b"\x0a\x01\x6e\x18\x02": Decimal("1.10"),
        b"\x0a\x01\xff": Decimal("-1.00"),
        b"\x0a\x01\x01\x18\x03": WRONG,  # one digit more than the column has
        b"\x0a\x02\x00\x01\x18\x02": WRONG,  # more bytes than it needs
        b"": WRONG,
    }
    for raw, value in decimal.items():
        message = b"\x3a" + bytes([len(raw)]) + raw
        assert read(EVERYTHING, message, shape, OUTER) == (value, None)
    assert read(EVERYTHING, b"\x62\x00", shape, OUTER) == (None, "")
    assert read(EVERYTHING, b"\x62\x03\x0a\x01x", shape, OUTER) == (None, "x")


def test_a_field_of_another_type_is_wrong_and_the_rest_is_read() -> None:
    parts = (("left", Shape(Wire.STRING)), ("kind", Shape(Wire.INT)), ("several", Shape(Wire.STRUCT)))
    shape = Shape(Wire.STRUCT, (*parts, ("wrapped", Shape(Wire.STRING))))
    message = b"\x28\x01\x08\x01\x42\x00\x62\x03\x0a\x01x"
    assert read(EVERYTHING, message, shape, OUTER) == (WRONG, WRONG, WRONG, "x")


@pytest.mark.parametrize(
    "message",
    [
        b"\x08",  # ends in a tag
        b"\x0a\x05x",  # shorter than its length
        b"\x10\x01",  # a number that the schema does not have
        b"\x09" + bytes(8),  # another way of writing than the type's
        b"\x0b",  # a group
        b"\x08" + b"\xff" * 9 + b"\x02",  # more than 64 bits
        b"\x08\x80\x80\x80\x80\x08",  # more than 32 bits
    ],
)
def test_bytes_that_are_no_message_of_the_schema_are_unreadable_and_nothing_else(message: bytes) -> None:
    text = 'syntax = "proto3"; message M { int32 n = 1; }'
    with pytest.raises(Unreadable, match="no Protobuf of schema 7"):
        read(text, message, Shape(Wire.STRUCT, (("n", Shape(Wire.INT)),)))


def test_a_message_within_another_ends_where_its_length_says() -> None:
    """Case: a message of one byte, whose field's length stands behind it."""
    inner = Shape(Wire.STRUCT, (("deep", Shape(Wire.STRUCT)),))
    shape = Shape(Wire.STRUCT, (("inner", inner),))
    assert read(EVERYTHING, b"\x1a\x02\x0a\x00", shape, OUTER) == (((),),)
    with pytest.raises(Unreadable, match="ValueError"):
        read(EVERYTHING, b"\x1a\x01\x0a\x00", shape, OUTER)


def test_text_that_is_not_utf_8_is_unreadable() -> None:
    text = 'syntax = "proto3"; message M { string s = 1; }'
    with pytest.raises(Unreadable, match="UnicodeDecodeError"):
        read(text, b"\x0a\x01\xff", Shape(Wire.STRUCT, (("s", Shape(Wire.STRING)),)))


def test_a_field_without_a_column_is_named_where_it_is_there() -> None:
    inner = Shape(Wire.STRUCT, whole=True)
    shape = Shape(Wire.STRUCT, (("inner", inner),))
    assert read(EVERYTHING, b"", shape, OUTER) == (None,)
    with pytest.raises(Unreadable) as error:
        read(EVERYTHING, b"\x1a\x00", shape, OUTER)
    assert (error.value.unknown, error.value.value) == (("deep",), ((),))


@pytest.mark.parametrize(
    ("marked", "missing", "value"),
    [
        (True, Missing.UNKNOWN, 0),  # the schema marks what may be NULL, and this field is not marked
        (False, Missing.UNKNOWN, WRONG),
        (False, Missing.ZERO, 0),
        (False, Missing.NULL, None),
    ],
)
def test_a_zero_is_not_written_so_the_schema_says_what_is_missing(marked: bool, missing: Missing, value: Any) -> None:
    other = "optional int64 ts_ms = 2;" if marked else "int64 ts_ms = 2;"
    text = f'syntax = "proto3"; message M {{ int32 n = 1; {other} }}'
    assert read(text, b"", Shape(Wire.STRUCT, (("n", Shape(Wire.INT, missing=missing)),))) == (value,)


# --- each type around a value, each that is absent, each that is of another type ---------------------------------------------

WRAPPERS: dict[str, tuple[Wire, list[Any]]] = {
    "DoubleValue": (Wire.FLOAT64, [0.1, -0.0]),
    "FloatValue": (Wire.FLOAT32, [0.5, 0.0]),
    "Int64Value": (Wire.INT, [-(2**63), 0]),
    "UInt64Value": (Wire.INT, [2**64 - 1, 0]),
    "Int32Value": (Wire.INT, [-(2**31), 0]),
    "UInt32Value": (Wire.INT, [2**32 - 1, 0]),
    "BoolValue": (Wire.BOOLEAN, [True, False]),
    "StringValue": (Wire.STRING, ["é", ""]),
    "BytesValue": (Wire.BYTES, [b"\xff", b""]),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_message_around_a_value_tells_null_from_zero(name: str) -> None:
    wire, values = WRAPPERS[name]
    text = f'syntax = "proto3"; message M {{ google.protobuf.{name} x = 1; int32 n = 2; }}'
    shape = Shape(Wire.STRUCT, (("x", Shape(wire)), ("n", Shape(Wire.INT, missing=Missing.UNKNOWN))))
    for value in values:
        inner = getattr(wrappers_pb2, name)(value=value).SerializeToString()
        # a schema with such a message marks what may be NULL, so what is not marked is a zero
        assert repr(read(text, b"\x0a" + bytes([len(inner)]) + inner, shape)) == repr((value, 0))
    assert read(text, b"", shape) == (None, 0)
    others = Shape(Wire.STRUCT, (("x", Shape(Wire.STRUCT)), ("n", Shape(Wire.INT, missing=Missing.ZERO))))
    assert read(text, b"\x0a\x00", others) == (WRONG, 0)


WIRES = [Wire.INT, Wire.FLOAT32, Wire.FLOAT64, Wire.BOOLEAN, Wire.STRING, Wire.BYTES, Wire.DECIMAL, Wire.STRUCT]
ZEROS: dict[Wire, Any] = {
    Wire.INT: 0, Wire.FLOAT32: 0.0, Wire.FLOAT64: 0.0, Wire.BOOLEAN: False, Wire.STRING: "", Wire.BYTES: b"",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_scalar_is_read_as_its_own_type_alone_and_its_zero_is_of_that_type(kind: str, wire: Wire) -> None:
    """A float may be asked for as either size; "12" is no number."""
    text = f'syntax = "proto3"; message M {{ {kind} x = 1; optional int32 y = 2; repeated {kind} z = 3; }}'
    own = SCALARS[kind][0]
    floats = {Wire.FLOAT32, Wire.FLOAT64}
    fits = wire is own or {wire, own} <= floats
    shape = Shape(wire, missing=Missing.ZERO)
    of = Shape(Wire.STRUCT, (("x", shape), ("z", Shape(Wire.ARRAY, of=shape, missing=Missing.ZERO))))
    absent, none = read(text, b"", of)
    assert repr(absent) == repr(ZEROS[own] if fits else WRONG)
    assert none == ([] if fits else WRONG)
    # a list where one value is asked for, and one where a list is
    crossed = Shape(Wire.STRUCT, (("z", shape), ("x", Shape(Wire.ARRAY, of=shape, missing=Missing.ZERO))))
    assert read(text, b"", crossed) == (WRONG, WRONG)


@pytest.mark.parametrize(
    ("line", "missing", "value"),
    [
        ("repeated In m", Missing.ZERO, []),
        ("repeated In m", Missing.UNKNOWN, WRONG),
        ("repeated In m", Missing.NULL, None),
        ("repeated int32 m", Missing.ZERO, []),
        ("repeated int32 m", Missing.UNKNOWN, WRONG),
        ("repeated int32 m", Missing.NULL, None),
        ("In m", Missing.ZERO, None),
        ("In m", Missing.UNKNOWN, None),
        ("optional int32 m", Missing.ZERO, None),
        ("optional int32 m", Missing.UNKNOWN, None),
    ],
)
def test_what_an_absent_field_means_for_a_list_a_message_and_an_optional_one(
    line: str, missing: Missing, value: Any
) -> None:
    """A list never tells NULL from no elements, whatever else of the schema is marked."""
    text = f'syntax = "proto3"; message M {{ {line} = 1; optional int32 other = 2; }} message In {{ int32 n = 1; }}'
    part = Shape(Wire.STRUCT, (("n", Shape(Wire.INT)),)) if "In" in line else Shape(Wire.INT)
    own = Shape(Wire.ARRAY, of=part, missing=missing) if "repeated" in line else replace(part, missing=missing)
    assert read(text, b"", Shape(Wire.STRUCT, (("m", own),))) == (value,)


@pytest.mark.parametrize(
    ("raw", "digits", "scale", "value"),
    [
        (b"\x6e", 2, 2, "1.10"),
        (b"\x6e", 2, 3, "1.100"),
        (b"\x6e", 2, 1, "1.1"),
        (b"\x6f", 2, 1, None),
        (b"\0", 2, 2, "0.00"),
    ],
)
def test_a_decimal_has_the_scale_of_its_column_and_loses_no_digit(
    raw: bytes, digits: int, scale: int, value: str | None
) -> None:
    """A column that was widened has events of both scales."""
    text = 'syntax = "proto3"; message M { confluent.type.Decimal x = 1; }'
    inner = b"\x0a" + bytes([len(raw)]) + raw + b"\x18" + bytes([digits])
    (found,) = read(
        text, b"\x0a" + bytes([len(inner)]) + inner, Shape(Wire.STRUCT, (("x", Shape(Wire.DECIMAL, scale=scale)),))
    )
    assert str(found) == (value if value is not None else str(WRONG))


# --- texts of schemas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "resolved"),
    [
        ("T", "p.q.M.T"),
        ("M.T", "p.q.M.T"),
        ("q.T", "p.q.T"),
        ("p.q.T", "p.q.T"),
        (".p.q.T", "p.q.T"),
        (".p.q.M.T", "p.q.M.T"),
        ("Only", "p.q.Only"),
        ("E", "enum"),
        ("F", "enum"),
        (".p.q.F", "enum"),
        ("Unknown", "Unknown"),
        (".Unknown", "Unknown"),
        ("int32", "int32"),
    ],
)
def test_a_name_is_looked_for_from_the_innermost_scope_outwards(name: str, resolved: str) -> None:
    """As protoc does it; with a dot before it, it is whole."""
    text = f"""
        package p.q;
        message T {{}} message Only {{}} enum F {{ Z = 0; }}
        message M {{ required {name} x = 1; message T {{ }} enum E {{ A = 0; }} }}
    """
    assert parse(text).messages["p.q.M"].fields == [ProtoField("x", 1, resolved, presence=True)]


@pytest.mark.parametrize(
    ("syntax", "line", "field"),
    [
        ("", "optional int32 n = 1;", ProtoField("n", 1, "int32", presence=True)),
        ("", "required int32 n = 1;", ProtoField("n", 1, "int32", presence=True)),
        ("syntax = 'proto2';", "repeated int32 n = 1 [packed = true];", ProtoField("n", 1, "int32", True, True)),
        ('syntax = "proto3";', "int32 n = 0x10;", ProtoField("n", 16, "int32")),
        ('syntax = "proto3";', "optional int32 n = 1;", ProtoField("n", 1, "int32", presence=True)),
        ('syntax = "proto3";', "repeated int32 n = 1;", ProtoField("n", 1, "int32", repeated=True)),
        ('syntax = "proto3";', "map<int32, map> n = 1;", ProtoField("n", 1, "", repeated=True)),
        ('syntax = "proto3";', "map n = 1;", ProtoField("n", 1, "map")),
        ('syntax = "proto3";', "oneof o { option x = 1; int32 n = 1; ; }", ProtoField("n", 1, "int32", presence=True)),
        ('syntax = "proto3";', "/* int32 m = 2; */ int32 n = 1; // int32 o = 3;\n;", ProtoField("n", 1, "int32")),
        (
            'syntax = "proto3";',
            "extensions 4 to 9; extend X { int32 m = 5; } int32 n = 1;",
            ProtoField("n", 1, "int32"),
        ),
        ('syntax = "proto3";', 'string n = 1 [default = "a\\"];{"];', ProtoField("n", 1, "string")),
    ],
    ids=str,
)
def test_each_form_of_a_field_is_read(syntax: str, line: str, field: ProtoField) -> None:
    """A file without `syntax` is proto2, in which every field tells whether it is set."""
    text = f"{syntax} service S {{ rpc R (A) returns (B) {{ }} }} ; message M {{ {line} }}"
    assert parse(text).messages["M"].fields == [field]
