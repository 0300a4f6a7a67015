"""What is written as JSON is JSON: the standard library reads it to what was meant, in Jackson's and Java's spelling."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.events.frame import said
from airflow_cdc.events.record import SchemaId, Unreadable
from airflow_cdc.events.value import NoValueError, Shape, Wire, nearest_single
from airflow_cdc.events.wire import json as wire
from airflow_cdc.events.wire.ids import CONTENT_ID
from airflow_cdc.events.wire.json import Json
from airflow_cdc.events.wire.json_draft import JsonDraft, float_of, json_of, text_of

# --- texts --------------------------------------------------------------------------------------------------------------------

# the first characters, those around the surrogates, and some beyond the first plane up to the last one of all
CHARACTERS = [
    *map(chr, range(0x800)),
    "\u2028",
    "\ud7ff",
    "\ue000",
    "\uffff",
    *map(chr, range(0x10000, 0x110000, 0x3FF)),
]


@pytest.mark.parametrize("part", range(0, len(CHARACTERS), 256))
def test_every_character_is_read_again(part: int) -> None:
    for one in [*CHARACTERS[part : part + 256], "\U0010ffff"]:
        written = text_of(f"a{one}b")
        assert json.loads(written) == f"a{one}b", f"{ord(one):x}"
        # Jackson escapes as Python does where everything is escaped, with capital digits; all else it leaves
        all_escaped = json.dumps(one)[1:-1]
        upper = re.sub(r"(?<=\\u)[0-9a-f]{4}", lambda match: match[0].upper(), all_escaped)
        must = one in '"\\' or ord(one) < 0x20 or ord(one) > 0xFFFF
        assert written == f'"a{upper if must else one}b"', f"{ord(one):x}"


# --- numbers ------------------------------------------------------------------------------------------------------------------

# what Double.toString gives; the bounds 10^-3 and 10^7 are those between the two forms
JAVA = {
    0.0: "0.0", 1.0: "1.0", 10.0: "10.0", 100.0: "100.0", 0.1: "0.1", 0.01: "0.01", 0.001: "0.001", 0.0015: "0.0015",
    0.00099: "9.9E-4", 0.0001: "1.0E-4", 1.5: "1.5", 12.25: "12.25", 1234567.0: "1234567.0", 1234567.5: "1234567.5",
    9999999.0: "9999999.0", 9999999.5: "9999999.5", 1e7: "1.0E7", 12345678.0: "1.2345678E7", 1e10: "1.0E10",
    1.25e-7: "1.25E-7", 1.7976931348623157e308: "1.7976931348623157E308", 5e-324: "4.9E-324", 2e-323: "2.0E-323",
}  # fmt: skip


@pytest.mark.parametrize(("number", "text"), JAVA.items(), ids=JAVA.values())
def test_a_double_is_written_as_java_writes_it_and_its_negative_with_a_sign(number: float, text: str) -> None:
    assert (float_of(number), float_of(-number)) == (text, f"-{text}")


@pytest.mark.parametrize("single", [True, False])
def test_what_is_no_number_is_a_word_that_connect_reads(single: bool) -> None:
    words = [float_of(one, single=single) for one in (math.nan, math.inf, -math.inf)]
    assert words == ['"NaN"', '"Infinity"', '"-Infinity"']


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_read_again_from_as_few_digits_as_java_17_needs(number: float) -> None:
    """One more than the fewest where two numbers beside it are not equally far: 2^-24 is 5.9604644775390625E-8."""
    text = float_of(number)
    assert json.loads(text) == number
    assert math.copysign(1, json.loads(text)) == math.copysign(1, number)
    assert digits(text) <= max(2, digits(repr(number)) + 1)


def digits(text: str) -> int:
    return len(re.sub(r"[Ee].*|[-.]", "", text).strip("0"))


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_single_is_read_again_from_at_most_nine_digits(number: float) -> None:
    text = float_of(number, single=True)
    assert struct.unpack("<f", struct.pack("<f", float(text)))[0] == number
    assert digits(text) <= 9


def test_the_largest_single_and_its_neighbour_keep_their_digits() -> None:
    assert float_of(3.4028234663852886e38, single=True) == "3.4028235E38"
    assert float_of(3.4028232635611926e38, single=True) == "3.4028233E38"
    assert float_of(1.401298464324817e-45, single=True) == "1.4E-45"


@pytest.mark.parametrize("odd", [1, 3])
def test_digits_between_two_singles_are_nothing_certain(odd: int) -> None:
    """Their double is the middle, to which digits a little above or below it were rounded as well."""
    middle = 1 + odd * 2**-24
    with pytest.raises(NoValueError):
        nearest_single(middle)
    assert nearest_single(middle + 2**-30) == 1 + (odd + 1) * 2**-24
    assert nearest_single(middle - 2**-30) == 1 + (odd - 1) * 2**-24
    with pytest.raises(NoValueError):
        nearest_single(1e39)


# --- values -------------------------------------------------------------------------------------------------------------------

INNER = Shape(Wire.STRUCT, (("n", Shape(Wire.INT)), ('q"', Shape(Wire.STRING))))
# shape, value → what it is to a reader of JSON
VALUES: list[tuple[Shape, Any, Any]] = [
    *((Shape(one), None, None) for one in Wire),
    (Shape(Wire.INT), -7, -7),
    (Shape(Wire.INT), True, 1),
    (Shape(Wire.INT), 2**64, 2**64),
    (Shape(Wire.BOOLEAN), True, True),
    (Shape(Wire.BOOLEAN), False, False),
    (Shape(Wire.FLOAT64), 0.1, 0.1),
    (Shape(Wire.FLOAT32), struct.unpack("<f", struct.pack("<f", 0.1))[0], 0.1),
    (Shape(Wire.STRING), 'a"\n', 'a"\n'),
    (Shape(Wire.BYTES), b"\xfb\xff\0", "+/8A"),
    (Shape(Wire.DECIMAL, scale=2), Decimal("-1.28"), base64.b64encode(b"\x80").decode()),
    (Shape(Wire.DECIMAL, scale=2), Decimal("1.28"), base64.b64encode(b"\0\x80").decode()),
    (Shape(Wire.ARRAY, of=Shape(Wire.INT)), [], []),
    (Shape(Wire.ARRAY, of=Shape(Wire.STRING)), ["a", None, "b"], ["a", None, "b"]),
    (Shape(Wire.MAP, of=Shape(Wire.INT)), {}, {}),
    (Shape(Wire.MAP, of=Shape(Wire.INT)), {"a": 1, 'b"': None}, {"a": 1, 'b"': None}),
    (INNER, (1, "x"), {"n": 1, 'q"': "x"}),
    (INNER, {'q"': "x", "n": None}, {'q"': "x", "n": None}),
    (INNER, {}, {}),
    (Shape(Wire.ARRAY, of=INNER), [(1, None), None], [{"n": 1, 'q"': None}, None]),
]


@pytest.mark.parametrize(("shape", "value", "read"), VALUES, ids=str)
def test_a_value_of_each_type_is_what_connect_s_converter_writes(shape: Shape, value: Any, read: Any) -> None:
    text = json_of(shape, value)
    assert json.loads(text) == read
    assert type(json.loads(text)) is type(read)
    assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)  # no blanks, in its order


# --- records ------------------------------------------------------------------------------------------------------------------

BARE = b'{"a":1,"b":{"c":null}}'
SCHEMA = (
    b'{"type":"struct","fields":[{"field":"a","type":"int32"},{"field":"b","fields":[{"field":"c"},{"field":"d"}]}]}'
)
WRAPPED = b'{"schema":' + SCHEMA + b',"payload":' + BARE + b"}"
FIELDS = {"a": b"1", "b": b'{"c":null}'}


@pytest.mark.parametrize(
    ("data", "wrapped", "declared"),
    [(BARE, None, None), (BARE, False, None), (WRAPPED, None, ["a", "b"]), (WRAPPED, True, ["a", "b"])],
    ids=["bare", "known to be bare", "in a schema", "known to be in one"],
)
def test_a_record_is_put_together_as_it_was_taken_apart(
    data: bytes, wrapped: bool | None, declared: list[str] | None
) -> None:
    draft = JsonDraft(data, wrapped)
    assert draft.fields == FIELDS
    assert draft.declared() == declared
    assert draft.declared("b") == (None if declared is None else ["c", "d"])
    assert draft.sealed(draft.fields) == data
    assert draft.sealed({"a": b"2"}) == data.replace(BARE, b'{"a":2}')
    assert draft.name_of("a b") == "a b"


@pytest.mark.parametrize(
    "names", [("schema",), ("payload",), ("schema", "payload", "x"), ("schema", "pay"), ("s", "payload")]
)
def test_only_a_schema_and_a_payload_and_nothing_else_are_a_schema_around_a_value(names: tuple[str, ...]) -> None:
    """A key's columns may be called so."""
    data = json.dumps({name: {"fields": []} for name in names}, separators=(",", ":")).encode()
    draft = JsonDraft(data)
    assert (list(draft.fields), draft.declared()) == (list(names), None)
    assert draft.sealed(draft.fields) == data
    known = JsonDraft(b'{"schema":1,"payload":2}', wrapped=False)
    assert known.fields == {"schema": b"1", "payload": b"2"}


def test_the_inside_of_a_part_is_null_or_its_fields() -> None:
    draft = JsonDraft(BARE)
    assert (draft.inside(b"null"), draft.inside(b"{}"), draft.inside(b'{"c":null}')) == (None, {}, {"c": b"null"})
    assert draft.struct({'q"': b"1", "é": b"[]"}) == '{"q\\"":1,"é":[]}'.encode()
    assert draft.part(INNER, (1, "é")) == '{"n":1,"q\\"":"é"}'.encode()
    for none in (b"[1]", b"7", b"{", b"", b"[" * 100_000):
        with pytest.raises(Unreadable, match="is no JSON object"):
            draft.inside(none)


# --- reading, and what is said of what can't be read ------------------------------------------------------------------------------

ROW = Shape(
    Wire.STRUCT, (("a", Shape(Wire.INT)), ("b", Shape(Wire.ARRAY, of=Shape(Wire.STRING))), ("c", Shape(Wire.FLOAT32)))
)
ROW_TEXT = b'{"a":1,"b":["x",null],"c":0.5}'
IN_SCHEMA = b'{"schema":{"type":"struct"},"payload":' + ROW_TEXT + b"}"


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [(ROW_TEXT, None), (ROW_TEXT, False), (IN_SCHEMA, None), (IN_SCHEMA, True)],
    ids=["bare", "known to be bare", "in a schema", "known to be in one"],
)
def test_what_a_converter_writes_is_read_without_the_slow_reader(
    monkeypatch: pytest.MonkeyPatch, text: bytes, wrapped: bool | None
) -> None:
    """It is asked for what is wrong alone: with it, a topic takes several times as long."""
    read = Json(wrapped).reader(ROW, {})

    def refuse(*_: Any) -> object:
        raise AssertionError("the slow reader was asked")

    monkeypatch.setattr(wire._Slow, "__call__", refuse)
    assert read(text, ()) == (1, ["x", None], 0.5)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Unreadable("is not valid UTF-8"), "the key is not valid UTF-8"),
        (Unreadable("no Avro of schema 7"), "the key: no Avro of schema 7"),
        (Unreadable("isolated"), "the key: isolated"),
        (Unreadable(schema_id=SchemaId(CONTENT_ID, 7)), "the registry does not know the schema of the key, content id 7"),
    ],
)  # fmt: skip
def test_a_dead_letter_says_which_side_is_wrong_in_a_sentence(error: Unreadable, text: str) -> None:
    assert said("key", error).replace(CONTENT_ID, "content id") == text
