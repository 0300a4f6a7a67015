"""What JsonConverter writes, read by msgspec and by the standard library to the same values."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.events.record import Unreadable
from airflow_cdc.events.value import WRONG, Shape, Wire
from airflow_cdc.events.wire import Read
from airflow_cdc.events.wire import json as wire
from airflow_cdc.events.wire.json import Json
from tests.goldens.scenes import TEXTS

LONG = int("123456789" * 16 + "1234567")  # 151 digits

SCALARS = [one for one in Wire if one not in {Wire.STRUCT, Wire.ARRAY, Wire.MAP}]
SHAPES = [
    *(Shape(one, scale=2) for one in SCALARS),
    *(Shape(Wire.ARRAY, of=Shape(one, scale=2)) for one in SCALARS),
    Shape(Wire.MAP, of=Shape(Wire.FLOAT32)),
    Shape(Wire.STRUCT, (("wkb", Shape(Wire.BYTES)), ("srid", Shape(Wire.INT)))),
    Shape(Wire.STRUCT, (("a", Shape(Wire.INT)),), whole=True),
]


def readers(shape: Shape, wrapped: bool | None = None) -> tuple[Read, Read]:
    """With msgspec, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "msgspec", None)
        slow = Json(wrapped).reader(shape, {})
    return Json(wrapped).reader(shape, {}), slow


def outcome(read: Callable[..., Any], text: bytes) -> object:
    try:
        return repr(read(text, ()))
    except Unreadable as error:
        return error.why, error.unknown, error.doubted


def of(shape: Shape) -> Shape:
    return Shape(Wire.STRUCT, (("x", shape), ("y", Shape(Wire.STRING))))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_readers_read_every_text_to_the_same(shape: Shape) -> None:
    fast, slow = readers(of(shape))
    assert fast is not slow
    for text in TEXTS:
        for written in (
            f'{{"x":{text}}}',
            f'{{"y":"a","x":{text},"z":{text}}}',
            f'{{"schema":{{}},"payload":{{"x":{text}}}}}',
        ):
            assert outcome(fast, written.encode()) == outcome(slow, written.encode()), written


@given(st.floats(width=64, allow_nan=False, allow_infinity=False), st.integers(0, 25))
def test_a_float_is_the_one_of_single_precision_that_is_nearest_to_its_digits(number: float, more: int) -> None:
    """As by a reader that rounds once: Decimal's digits are exact, and numpy's are not asked."""
    fast, slow = readers(of(Shape(Wire.FLOAT32)))
    digits = f"{Decimal(number):.{more + 17}E}"
    got = outcome(fast, f'{{"x":{digits}}}'.encode())
    assert got == outcome(slow, f'{{"x":{digits}}}'.encode())
    value = slow(f'{{"x":{digits}}}'.encode(), ())[0]
    if value is not WRONG:
        exact = Decimal(digits)
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        beside = [
            struct.unpack("<f", struct.pack("<I", bits + step))[0] for step in (-1, 1) if 0 <= bits + step < 2**32
        ]
        finite = [one for one in beside if one - one == 0]
        assert all(abs(Decimal(value) - exact) <= abs(Decimal(one) - exact) for one in finite)


@pytest.mark.parametrize(
    ("wired", "text", "value"),
    [
        (Wire.INT, "123456789012345678901234567890", 123456789012345678901234567890),
        (Wire.INT, "1.0", WRONG),
        (Wire.INT, '"12"', WRONG),
        (Wire.INT, "true", WRONG),
        (Wire.STRING, "12", WRONG),
        (Wire.FLOAT64, "-0.0", -0.0),
        (Wire.FLOAT64, "1.10", 1.1),
        (Wire.FLOAT64, "1e400", WRONG),
        (Wire.FLOAT64, '"Infinity"', float("inf")),
        (Wire.FLOAT32, "1.000000059604644776", 1.0000001192092896),
        (Wire.FLOAT32, "1.000000059604644775390625", 1.0),
        (Wire.FLOAT32, "3.4028236e38", WRONG),
        (Wire.STRING, '"\\ud83d"', WRONG),
        (Wire.STRING, '"\\ud83d\\ude00"', "😀"),
        (Wire.BYTES, '"AQ=="', b"\x01"),
        (Wire.BYTES, '"AQ"', WRONG),
        (Wire.DECIMAL, '"AfQ="', Decimal("5.00")),
        (Wire.DECIMAL, '"/w=="', Decimal("-0.01")),
        (Wire.DECIMAL, json.dumps(base64.b64encode(LONG.to_bytes(63, "big")).decode()), Decimal(f"{LONG}e-2")),
        (Wire.DECIMAL, '"AAE="', WRONG),  # one byte more than it needs
        (Wire.DECIMAL, '""', WRONG),
    ],
)
def test_json_types_are_types_and_no_digit_is_lost(wired: Wire, text: str, value: Any) -> None:
    for read in readers(of(Shape(wired, scale=2))):
        assert repr(read(f'{{"x":{text}}}'.encode(), ())[0]) == repr(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"x":1,"z":' + b"[" * 20_000, "is not JSON"),
        (b'{"x":1,"z":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "is not JSON"),
        (b'{"x":1', "is not JSON"),
        (b"", "is not JSON"),
        (b"[1]", "is not JSON"),
        (b"null", "is not JSON"),
        (b'{"x":NaN}', "is not JSON"),
        (b'{"x":1}{"x":1}', "is not JSON"),
        (b'\xef\xbb\xbf{"x":1}', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"x":1,"z":"\xe9"}', "is not valid UTF-8"),
        (b'\xff\xfe{"x":1}', "is not valid UTF-8"),
    ],
    ids=repr,
)
def test_what_cannot_be_read_at_all_is_said(text: bytes, why: str) -> None:
    for read in readers(of(Shape(Wire.INT))):
        with pytest.raises(Unreadable) as error:
            read(text, ())
        assert error.value.why == why


def test_a_field_of_another_name_is_named_where_the_struct_is_whole() -> None:
    row = Shape(Wire.STRUCT, (("a", Shape(Wire.INT)),), whole=True)
    shape = Shape(Wire.STRUCT, (("before", row), ("after", row)))
    text = json.dumps({"before": {"a": 1, "old": 1}, "after": {"a": 1, "more": 1}, "op": "u"}).encode()
    for read in readers(shape):
        with pytest.raises(Unreadable) as error:
            read(text, ())
        assert (error.value.why, error.value.unknown) == ("", ("more", "old"))


@pytest.mark.parametrize(
    ("wrapped", "text", "value"),
    [
        (None, {"a": 1}, (1,)),
        (None, {"schema": {"type": "struct"}, "payload": {"a": 1}}, (1,)),
        (None, {"a": 2, "payload": None}, (2,)),
        (True, {"schema": {"type": "struct"}, "payload": {"a": 1}}, (1,)),
        (False, {"schema": {"type": "struct"}, "payload": {"a": 1}}, (None,)),
    ],
)
def test_a_schema_around_the_value_is_seen_or_known(wrapped: bool | None, text: object, value: object) -> None:
    for read in readers(Shape(Wire.STRUCT, (("a", Shape(Wire.INT)),)), wrapped):
        assert read(json.dumps(text).encode(), ()) == value


def test_a_key_whose_columns_are_named_like_the_parts_of_a_schema_is_told_from_one_in_it() -> None:
    shape = Shape(Wire.STRUCT, (("schema", Shape(Wire.INT)), ("payload", Shape(Wire.INT))))
    plain, around = {"schema": 1, "payload": 2}, {"schema": {"type": "struct"}, "payload": {"schema": 1, "payload": 2}}
    for wrapped, text in ((None, plain), (None, around), (False, plain), (True, around)):
        for read in readers(shape, wrapped):
            assert read(json.dumps(text).encode(), ()) == (1, 2)


@pytest.mark.parametrize("name", ['a"b', "c\\d", "e\nf", "é😀", "payload", "f0"])
def test_a_column_may_have_any_name(name: str) -> None:
    for read in readers(Shape(Wire.STRUCT, ((name, Shape(Wire.INT)), ("f0x", Shape(Wire.INT))))):
        assert read(json.dumps({name: 7, "f0x": 8}).encode(), ()) == (7, 8)


def test_the_last_of_a_field_that_is_there_twice_counts() -> None:
    """Jackson, which converters write with, cannot write one."""
    for read in readers(of(Shape(Wire.INT))):
        assert read(b'{"x":1,"x":2}', ())[0] == 2
