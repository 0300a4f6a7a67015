"""Scenes for decoders of Canal's messages: a table, a server's settings, and messages in every form, the bad ones included.

What Spark's expressions made of them at 128d013f is kept in tests/data/goldens/canal, as keep.py says. A record may hold several
changes, or none: each change is a line, with the record's offset (`at`); {"failed": why} of a record that made the whole job fail.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_cdc.connectors.canal.capture import CanalCapture
from airflow_cdc.core.table import Table
from airflow_cdc.events.record import RawRecord
from tests.apply_support import ITEMS, UUID
from tests.goldens import keep
from tests.goldens.scenes import MYSQL_COLUMNS, TEXTS
from tests.paths import ROOT
from tests.unit.connectors.canal.packed import packed
from tests.unit.connectors.canal.settings import FOLLOWED, PROTOBUF

FOLDER = keep.FOLDER / "canal"
MESSAGES = json.loads((ROOT / "tests" / "data" / "canal-messages.json").read_text())["messages"]
TS_MS = 1_800_000_000_000
ONE, TWO = {"id": "1", "name": "é", "qty": "5"}, {"id": "1", "name": None, "qty": "-3"}


@dataclass(frozen=True, slots=True)
class CanalScene:
    """Records of the one topic, under a server's settings. `before`: whether old rows are wanted, too."""

    name: str
    table: Table
    records: Sequence[RawRecord]
    config: Mapping[str, str] = field(default_factory=lambda: FOLLOWED)
    before: bool = False

    @property
    def settings(self) -> CanalCapture:
        return CanalCapture.from_config(self.config)


# --- values --------------------------------------------------------------------------------------------------------------

# texts of a value as Canal writes it, beside those of TEXTS: what it writes of each type, and what none of them may be
CANAL_TEXTS: Sequence[str] = (
    "00012", "-00.50", "1.005", "1.100", "-128", "128", "65535", "3.0E-5", "1.17549435E-38", "1.4E-45", "-0.0", ".5", "5.", "1_000", "١٢",
    "0x10", "inf", "2021-03-28 02:30:00.5", "2021-10-31 02:30:00", "2021-10-31 02:30:00.123456", "2021-10-31 03:00:00", "2021-10-31 01:59:59.999999",
    "2021-03-28 01:59:59", "2021-03-28 03:00:00", "2021-06-30 23:59:59", "1970-01-01 00:00:00", "1970-01-01 00:00:01", "1970-01-01 01:00:01",
    "2038-01-19 03:14:07", "2038-01-19 11:14:07", "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "0000-00-00", "0000-00-00 00:00:00", "0000-00-00 00:00:00.000000",
    "2021-00-00", "2021-02-30", "2021-02-30 10:00:00", "2021-13-01", "2021-03-28 24:00:00", "2021-03-28 23:60:00", "2021-03-28 2:30:00", "2021-03-28 02:30",
    "2021-3-28", "10000-01-01", "2021-03-28T02:30:00.000001", "2021-03-28 02:30:00.1234567", "838:59:59", "-838:59:59.000001", "00:00:00", "-00:00:00.1", "12:34", "1:02:03",
    "24:00:00", "99:99:99", "1234:00:00", "2", "3", "4", "63", "64", "4095", "4096", "9223372036854775806", "0000", "1899",
    "\x00\xff", "\x00\x00\x00\x00\x01\x02", "\xe6\x10\x00\x00\x01\x01\x00\x00\x00", "\xff\xff\xff\xff\x01", "\x00\x00\x00\x80\x01", "abcd", "abcde", "ÿ", "€",
    '{"a": 1.0, "b": [true, null]}', "[]", "nul", '"x"', "1e-7", " x ",
)  # fmt: skip
# JSON that is no text: Canal writes texts and null alone
OTHERS: Sequence[str] = ("null", "true", "12", "1.10", "[]", "{}", '["1"]')
ZONES: Mapping[str, Sequence[str]] = {
    "utc": ("UTC",),
    "berlin": ("Europe/Berlin",),
    "shanghai": ("Asia/Shanghai",),
}
_ZONED = ("id", "ts", "ts6", "tr")


def carried() -> Table:
    """A column of every type that Canal's events carry, each nullable, and those of days once more where NULL is refused."""
    columns = [
        one
        for one in MYSQL_COLUMNS
        if not (words := dict(one.native.words)).get("charset") or words["charset"] == "utf8mb4"
    ]
    again = {"da": "dar", "dt6": "dtr", "ts6": "tr"}
    required = [replace(one, name=again[one.name], nullable=False) for one in columns if one.name in again]
    every = [ITEMS.column("id"), *columns, *required]
    return Table("shop", "every", tuple(replace(one, ordinal=at) for at, one in enumerate(every, 1)), ("id",))


def json_texts() -> list[str]:
    """The JSON of each value."""
    written = [json.loads(text) for text in TEXTS if text.startswith('"')]
    plain = [text for text in TEXTS if text[:1] in "-0123456789"]
    return [*OTHERS, *map(json.dumps, dict.fromkeys((*CANAL_TEXTS, *written, *plain)))]


def value_scenes() -> Iterator[CanalScene]:
    whole = carried()
    for name, (zone,) in ZONES.items():
        columns = tuple(one for one in whole.columns if zone == "UTC" or one.name in _ZONED)
        table, records = replace(whole, columns=columns), []
        for at, text in enumerate(json_texts()):
            fields = "".join(f",{json.dumps(one.name)}:{text}" for one in columns if one.name != "id")
            row = f'"data": [{{"id":"{at}"{fields}}}]'
            head = json.dumps(flat("INSERT", None, table=table, at=at + 1)).replace('"data": null', row)
            records.append(RawRecord(0, at, None, head.encode()))
        yield CanalScene(f"values_{name}", table, records, {**FOLLOWED, "connector.time_zone": zone})


# --- records -------------------------------------------------------------------------------------------------------------


def flat(kind: Any, data: Any, old: Any = None, *, table: Table = ITEMS, at: int = 1, **more: Any) -> dict[str, Any]:
    """A message as flat JSON."""
    made = {
        "data": data,
        "old": old,
        "database": table.schema,
        "table": table.name,
        "type": kind,
        "isDdl": kind == "TRUNCATE",
    }
    return {**made, "es": TS_MS + at * 1000, "gtid": f"{UUID}:1-{at}", "sql": "", "id": at, **more}


def changes() -> Iterator[dict[str, Any]]:
    """Every operation, and every way in which a message can be wrong without ceasing to be one."""
    three = [{"id": str(n), "name": "a", "qty": None} for n in (1, 2, 3)]
    moved = {"id": "2", "name": "é", "qty": "5"}
    said: Sequence[tuple[Any, Any, Any]] = (
        ("INSERT", [ONE], None), ("INSERT", three, None), ("UPDATE", [TWO], [{"name": "é", "qty": "5"}]), ("UPDATE", [TWO], [{"name": None}]), ("UPDATE", [TWO], [{}]),
        ("UPDATE", [moved], [{"id": "1"}]), ("UPDATE", [moved, ONE], [{"id": "1"}, {"qty": "4"}]), ("UPDATE", three, [{"id": "2"}, {"id": "3"}, {"id": None}]),
        ("UPDATE", [TWO], None), ("UPDATE", three, [{"name": "x"}]), ("UPDATE", [ONE], [{"name": "x"}, {"name": "y"}]), ("UPDATE", [ONE], []), ("UPDATE", [ONE], [None]),
        ("UPDATE", [ONE], [{"more": "x"}]), ("DELETE", [ONE], None), ("DELETE", three, None), ("DELETE", [ONE], [{"name": "x"}]), ("TRUNCATE", None, None), ("TRUNCATE", [ONE], None),
        ("INSERT", None, None), ("INSERT", [], None), ("INSERT", [None], None), ("INSERT", [{}], None), ("UPDATE", None, None), ("DELETE", None, None), ("DELETE", [{"id": "1"}], None),
        ("INSERT", [{**ONE, "more": "1", "most": None}], None), ("DELETE", [{**ONE, "more": "1"}], None), ("UPDATE", [{**moved, "x'y": "1"}], [{"id": "1"}]),
        ("INSERT", [{"id": "1"}], None), ("INSERT", [{"name": "a"}], None), ("INSERT", [{**ONE, "id": None}], None), ("INSERT", [{**ONE, "qty": "ten"}], None),
        ("INSERT", [{**ONE, "id": "x", "qty": "1e3"}], None), ("DELETE", [{**ONE, "id": "x"}], None), ("UPDATE", [ONE], [{"qty": "x"}]), ("UPDATE", [moved], [{"id": "x"}]),
        *((kind, [ONE], None) for kind in ("c", "x", "", "insert", "XACOMMIT", "MHEARTBEAT", None)), ("CREATE", None, None), ("QUERY", None, None),
    )  # fmt: skip
    for kind, data, old in said:
        yield flat(kind, data, old)
    for kind in ("CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "TRUNCATE", "INSERT"):
        yield flat(kind, None, isDdl=True, sql="ALTER TABLE items ADD x int")
        yield flat(kind, [ONE], isDdl=True)
    for other in ({"database": "else"}, {"table": "others"}, {"database": ""}, {"table": ""}):
        yield {**flat("INSERT", [{"other": "1"}]), **other}
        yield {**flat("TRUNCATE", None), **other}
    for gtid in ("", f"{UUID}:5", f"{UUID}:1", f"{UUID}:0", f"{UUID}:2-5", f"{UUID}:1-5:7-9", f"{UUID}:1-5,{UUID[:-1]}0:1-3", UUID, f"{UUID.upper()}:1-5", f"{UUID}:1-9223372036854775807", f"{UUID}:1-9223372036854775808", "x:1-5", f" {UUID}:1-5"):  # fmt: skip
        yield flat("INSERT", [ONE], gtid=gtid)
    for es in (0, -1, 2**40):
        yield flat("INSERT", [ONE], es=es)


def odd() -> Iterator[bytes | None]:
    """What only JSON can say, and what is none."""
    good = flat("INSERT", [ONE])
    strange: Sequence[Any] = (None, 7, "x", [], {}, [7], ["x"], [{"id": 1}], [[]], True, 1.5, 10**30)
    no_texts: Sequence[Any] = (1, 1.0, True, [], {"a": "b"}, ["5"], 10**30, "")
    for name in ("data", "old", "database", "table", "type", "isDdl", "es", "gtid"):
        yield json.dumps({key: value for key, value in good.items() if key != name}).encode()
        for value in strange:
            yield json.dumps({**good, name: value}).encode()
            if name == "old":
                yield json.dumps({**flat("UPDATE", [TWO]), name: value}).encode()
    for value in no_texts:
        for name in ONE:
            yield json.dumps(flat("INSERT", [{**ONE, name: value}])).encode()
            yield json.dumps(flat("UPDATE", [ONE], [{name: value}])).encode()
        yield json.dumps(flat("INSERT", [{**ONE, "more": value}])).encode()
    text = json.dumps(good).encode()
    yield None
    yield from (
        b"", b" ", b"nothing of the kind", b"null", b"[]", b"7", b'"x"', b"{}", text[: len(text) // 2], text + b"x", text + text, b" " + text + b"\n", b"\xef\xbb\xbf" + text,
        b"\xff\xfe" + text, text.replace(b'"type"', b'"type": "DELETE", "type"'), text.replace(b'"id": "1"', b'"id": "2", "id": "1"'), text.replace(b'"5"', b"NaN"), text.replace(b'"5"', b"05"),
        text.replace(b"\\u00e9", b"\xc3\xa9"), text.replace(b"\\u00e9", b"\xe9"), text.replace(b"\\u00e9", b"\\ud83d"), text.replace(b"\\u00e9", b"\x01"), text.replace(b"\\u00e9", b"\\q"),
        text.replace(b"\\u00e9", b"\\u0000"), text.replace(b'"old": null', b'"old": "\xe9"'), text.replace(b'"sql": ""', b'"sql": "\xe9"'), text.replace(b'"sql": ""', b'"sql": "\\ud83d"'), text.replace(b'"sql": ""', b'"sql": 1e400'),
        text.replace(b'"', b"'"), text.replace(b"}", b",}"), b'{"payload": ' + text + b"}", b"[" + text + b"]", b"\x08", b"\x10\x01", b"\x18\x07",
    )  # fmt: skip


def packets() -> Iterator[bytes | None]:
    """Packets of one entry and of many, and what is no packet."""
    made = [one for one in changes() if _packable(one)]
    for one in made:
        yield packed(one)
    rng = random.Random(20261128)
    for _ in range(30):
        yield packed(*rng.sample(made, rng.randrange(2, 6)))
    good = packed(made[0], made[2])
    yield packed()
    for cut in (1, 5, len(good) // 2, len(good) - 1):
        yield good[:cut]
    yield from (
        packed(made[0], compression=2),
        packed(made[0], compression=0),
        packed(made[0], packet=3),
        packed(made[0], made[1], kind=9),
    )
    yield from (packed(made[0], kind=kind) for kind in (1, 3, 4, 5))
    yield from (
        good + b"x",
        good.replace(b"\xc3\xa9", b"\xc3\x28"),
        good.replace(b"items", b"it\xffms"),
        good.replace(b"name", b"n\xffme"),
    )
    yield json.dumps(made[0]).encode()
    for _ in range(100):
        yield fuzzed(rng, good, bytes(range(256)))


def _packable(one: Mapping[str, Any]) -> bool:
    rows = (*(one["data"] or ()), *(one["old"] or ()))
    pairs = len(one["old"] or ()) in {0, len(one["data"] or ())}
    return isinstance(one["type"], str) and None not in rows and pairs


def fuzzed(rng: random.Random, good: bytes, letters: bytes) -> bytes:
    """Bytes changed at random."""
    made = bytearray(good)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(made))
        made[at : at + rng.randrange(3)] = bytes(rng.choice(letters) for _ in range(rng.randrange(3)))
    return bytes(made)


def numbered(values: Iterator[bytes | None]) -> Sequence[RawRecord]:
    """Records at one offset after the other."""
    return [RawRecord(0, at, None, value) for at, value in enumerate(values)]


def flats() -> Iterator[bytes | None]:
    """All messages of flat JSON."""
    for one in changes():
        yield json.dumps(one).encode()
    yield from odd()
    rng, some = random.Random(20261127), [json.dumps(one).encode() for one in changes()]
    for _ in range(300):
        yield fuzzed(rng, rng.choice(some), b'{}[]",:0123456789\\ntfu\xff.eE-')


def record_scenes() -> Iterator[CanalScene]:
    keyless = replace(ITEMS, key=())
    yield CanalScene("flat", ITEMS, numbered(flats()))
    yield CanalScene("flat_before", keyless, numbered(flats()), before=True)
    yield CanalScene("protobuf", ITEMS, numbered(packets()), PROTOBUF, before=True)
    for kind, config in (("flat_gtid", FOLLOWED), ("flat", FOLLOWED), ("protobuf_gtid", PROTOBUF)):
        records = [RawRecord(0, one["offset"], None, base64.b64decode(one["value"])) for one in MESSAGES[kind]]
        yield CanalScene(f"real_{kind}", ITEMS, records, config, before=True)


def scenes() -> Iterator[CanalScene]:
    yield from value_scenes()
    yield from record_scenes()


def read_lines(name: str) -> Sequence[Mapping[str, Any]]:
    """The changes of a scene, as they were kept."""
    lines: Sequence[Mapping[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    return lines
