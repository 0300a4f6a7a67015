"""Canal's messages are decoded to what Spark's expressions made of them (tests/data/goldens/canal), or to none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pytest

from airflow_cdc.connectors.canal.events.frames import Flat, Packets
from airflow_cdc.connectors.canal.events.mysql import TIME_ZONE, CanalValues
from tests.goldens.canal import json_texts, read_lines, scenes
from tests.goldens.keep import now
from tests.goldens.scenes import Scene

Lines = list[Mapping[str, Any]]
SCENES = {scene.name: scene for scene in scenes()}
VALUES = [name for name in SCENES if name.startswith("values_")]
RECORDS = [name for name in SCENES if name not in VALUES]
TEXTS = json_texts()
BAD, NULL = "no value", "NULL"


def beside(name: str) -> Iterator[tuple[bytes, Lines, Lines]]:
    """The changes of each record: the record, what they were, what they are; in the order of their places."""
    scene = SCENES[name]
    values, frame = CanalValues(scene.config[TIME_ZONE]), Packets() if scene.settings.protobuf else Flat()
    was = {at: list(some) for at, some in groupby(read_lines(name), key=lambda one: int(one["at"]))}
    for record in scene.records:
        before = [{key: value for key, value in one.items() if key != "at"} for one in was.get(record.offset, ())]
        made = now(Scene(name, "mysql", scene.table, [record], before=scene.before), frame, values)
        yield record.value or b"", in_order(before), in_order(made)


def in_order(lines: Sequence[Mapping[str, Any]]) -> Lines:
    return sorted(lines, key=lambda one: int(one.get("place", (0, 0, 0))[2]))


# ---- values -------------------------------------------------------------------------------------------------------------


def matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text, re.ASCII) is not None


def number_of(*ranges: range) -> Callable[[str], bool]:
    return lambda text: matches(r"\d+")(text) and any(int(text) in one for one in ranges)


# Column → whether Canal can write such a text. What it can't write was cast, rounded or cut, and is none now
FORMS: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys(("id", "ti", "i", "iu", "bi"), matches(r"-?\d+")),
    **dict.fromkeys(("biu", "b64"), matches(r"\d+")),
    **{
        name: matches(rf"-?\d+(\.\d{{1,{scale}}}0*)?")
        for name, scale in (("d5", 2), ("d18", 6), ("d38", 10), ("d65", 30))
    },
    "d19": matches(r"-?\d+"),
    "f": matches(r"-?\d{1,7}\.\d{1,9}(E-?\d\d?)?"),
    "db": matches(r"-?\d{1,7}\.\d+(E-?\d+)?"),
    "b1": number_of(range(2)),
    "b5": number_of(range(32)),
    "b12": number_of(range(4096)),
    "y": number_of(range(1), range(1901, 2156)),
    # an hour that the clock of Berlin left out
    **dict.fromkeys(("ts", "ts6", "tr"), matches(r"(?!2021-03-28 02:).*")),
}


def is_written(column: str, text: str) -> bool:
    """Whether Canal can write such JSON in such a column: texts and NULL alone."""
    value = json.loads(text)
    return value is None or (isinstance(value, str) and (column not in FORMS or FORMS[column](value)))


def value_in(line: Mapping[str, Any], column: str) -> str:
    wrong = line.get("bad", "").removeprefix("the row's column ").removesuffix(" cannot be decoded").split(", ")
    return str(line.get("after", {}).get(column, BAD if column in wrong else NULL))


@pytest.mark.parametrize("name", VALUES)
def test_each_text_is_the_value_that_it_was_or_none_where_canal_does_not_write_it(name: str) -> None:
    seen = 0
    for text, (_, (was,), (made,)) in zip(TEXTS, beside(name), strict=True):
        for column in SCENES[name].table.columns:
            before, after = value_in(was, column.name), value_in(made, column.name)
            stricter = after == BAD and not is_written(column.name, text)
            assert before == after or stricter or "failed" in was, (column.name, text)
            seen += after not in {BAD, NULL}
    assert seen > len(TEXTS)


# ---- records ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDS)
def test_each_change_is_what_it_was_and_what_is_no_message_of_canal_s_is_bad(name: str) -> None:
    for value, was, made in beside(name):
        before, after = comparable(was), comparable(made)
        if before == after or _TWICE in value or without_old(before) == after:
            continue
        assert not is_canal_s(value), (value, before, after)
        assert any("bad" in one for one in after), value
        assert all("bad" in one or one in before for one in after), (value, before, after)


def comparable(lines: Lines) -> Lines:
    """Of another table's rows that they are not ours, of a bad record the reason: nothing else of them counts."""
    shortened = [_shortened(one) for one in lines]
    others = sorted({one["other_table"] for one in shortened if "other_table" in one})
    return [one for one in shortened if "other_table" not in one] + [{"other_table": one} for one in others]


def without_old(lines: Lines) -> Lines:
    """A wrong value in an old row that decides nothing was left out alone; the whole old row counts as none now."""
    return [{key: value for key, value in one.items() if key != "before"} for one in lines]


def _shortened(line: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("other_table", "bad"):
        if name in line:
            # which image is named first does not matter; keys are of one column
            return {name: re.sub(r"^the (old )?row's column", "the row's column", line[name])}
    return line


# a column twice in a row: the first was taken, and is the last now, as of all fields
_TWICE = b'{"id": "2", "id": "1"'
# a number of a transaction beyond 64 bits, which was taken without a place
_BEYOND = b":1-9223372036854775808"


def is_canal_s(value: bytes) -> bool:
    """Whether a record is of the form and the types that Canal writes: JSON's types are types, and nothing is cast."""
    if _BEYOND in value:
        return False
    if not value.startswith(b"{"):
        return True
    try:
        message = json.loads(value, object_pairs_hook=_once)
        _ = json.dumps(message, ensure_ascii=False).encode()  # no half of a surrogate pair
    except ValueError:
        return False  # it was read up to there, or in spite of it
    texts = all(isinstance(message.get(name), str | None) for name in ("database", "table", "type", "gtid"))
    rows = all(_are_rows(message.get(name)) for name in ("data", "old"))
    flags = isinstance(message.get("isDdl"), bool | None) and type(message.get("es")) in {int, type(None)}
    return texts and rows and flags and message.get("type") != ""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError(pairs)
    return dict(pairs)


def _are_rows(rows: Any) -> bool:
    return rows is None or (isinstance(rows, list) and all(_is_row(row) for row in rows))


def _is_row(row: Any) -> bool:
    return row is None or (isinstance(row, dict) and all(isinstance(text, str | None) for text in row.values()))
