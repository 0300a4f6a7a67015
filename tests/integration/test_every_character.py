"""Every character of every character set, as the server reads it and as Debezium's events have it.

What this finds is the table in connectors/debezium/events/mysql_charsets.py. It takes two to seven minutes: six million characters, in rows of 256.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaConsumer, TopicPartition

from airflow_cdc.connectors.debezium.events.mysql_charsets import CHARSETS, Carriage, Charset
from stack.process import wait_until
from tests.integration.test_events_agree import Captured

if TYPE_CHECKING:
    from stack.connect import ConnectWorker
    from stack.mysql import MySqlServer

pytestmark = pytest.mark.slow

SIGN = "\N{REPLACEMENT CHARACTER}"
PER_ROW = 256
UNICODE = {
    "utf8": "utf-8", "utf8mb3": "utf-8", "utf8mb4": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}  # fmt: skip
BASIC_PLANE_ONLY = {"utf8", "utf8mb3", "ucs2"}
COMMA = {"ucs2": "002C", "utf16": "002C", "utf16le": "2C00", "utf32": "0000002C"}


@dataclass(frozen=True, slots=True)
class Read:
    """One character: its bytes, and what the server and the event have of it."""

    code: str
    server: str
    event: str


def candidates(name: str, longest: int) -> list[str]:
    """Bytes that may be one character, in hexadecimal."""
    if name in UNICODE:
        top = 0x10000 if name in BASIC_PLANE_ONLY else 0x110000
        points = (point for point in range(top) if not 0xD800 <= point < 0xE000)
        return [chr(point).encode(UNICODE[name]).hex().upper() for point in points]
    codes = [f"{byte:02X}" for byte in range(256)]
    if longest > 1:
        codes += [f"{a:02X}{b:02X}" for a in range(0x80, 256) for b in range(0x30, 256)]
    if longest == 3:  # Japanese: the supplementary plane
        codes += [f"8F{a:02X}{b:02X}" for a in range(0xA1, 0xFF) for b in range(0xA1, 0xFF)]
    if name == "gb18030":
        codes += [
            f"{a:02X}{b:02X}{c:02X}{d:02X}"
            for a in (*range(0x81, 0x85), *range(0x90, 0xE4))
            for b in range(0x30, 0x3A)
            for c in range(0x81, 0xFF)
            for d in range(0x30, 0x3A)
        ]
    return codes


class Characters(Captured):
    """A table per character set, which a connector follows."""

    def sets(self) -> dict[str, int]:
        query = "SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME <> 'binary'"
        return {str(name): int(longest) for name, longest in self.run(query)}

    def characters(self, name: str, longest: int) -> list[list[str]]:
        """Rows of codes that are one character each for the server; single bytes stand alone, so that each is seen."""
        codes = candidates(name, longest)
        if longest > 1 and name not in UNICODE:
            codes = [code for at in range(0, len(codes), 50_000) for code in self._valid(name, codes[at : at + 50_000])]
        codes = [code for code in codes if code != COMMA.get(name, "2C")]
        size = 1 if longest == 1 else PER_ROW
        return [codes[at : at + size] for at in range(0, len(codes), size)]

    def _valid(self, name: str, codes: Sequence[str]) -> list[str]:
        """The codes that a column of this set takes whole, as one character."""
        values = ",".join(f"('{code}', X'{code}')" for code in codes)
        rows = self.run(
            f"CREATE TEMPORARY TABLE {self.schema}.codes (code varchar(8) CHARACTER SET ascii, v varchar(8) CHARACTER SET {name})",
            f"INSERT IGNORE INTO {self.schema}.codes VALUES {values}",
            f"SELECT code FROM {self.schema}.codes WHERE HEX(v) = code AND CHAR_LENGTH(v) = 1",
        )
        return [str(row[0]) for row in rows]

    def write(self, name: str, rows: Sequence[Sequence[str]]) -> None:
        comma = COMMA.get(name, "2C")
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            for at, codes in enumerate(rows):
                cursor.execute(f"INSERT INTO {self.schema}.t_{name} VALUES ({at}, X'{comma.join(codes)}')")
            connection.commit()

    def stored(self, name: str) -> dict[int, str]:
        """The rows' text, converted by the server as a snapshot has it converted."""
        return dict(self.run(f"SELECT id, CONVERT(v USING utf8mb4) FROM {self.schema}.t_{name}"))

    def arrived(self, name: str, count: int) -> dict[int, str]:
        """The rows' text as the events have it."""
        topic = f"{self.schema}_sets.{self.schema}.t_{name}"
        wait_until(
            lambda: self._records(topic) >= count or None, timeout=300, interval=1, what=f"{count} events in {topic}"
        )
        texts: dict[int, str] = {}
        with closing(
            KafkaConsumer(bootstrap_servers=self.kafka, enable_auto_commit=False, fetch_max_bytes=2**26)
        ) as reader:
            places = [TopicPartition(topic, partition) for partition in reader.partitions_for_topic(topic)]
            reader.assign(places)
            reader.seek_to_beginning()

            def read_on() -> bool | None:
                for record in (one for batch in reader.poll(1000).values() for one in batch):
                    body = json.loads(record.value)
                    after = body.get("payload", body)["after"]
                    texts[after["id"]] = after["v"]
                return len(texts) == count or None

            wait_until(read_on, timeout=300, interval=0, what=f"{count} events of {topic} are read")
        return texts


@pytest.fixture(scope="module")
def sets(mysql: MySqlServer, connect_worker: ConnectWorker, kafka: str) -> Iterator[dict[str, list[Read]]]:
    """Character set → its characters as both read them."""
    captured = Characters(mysql, connect_worker, kafka, None)
    names = captured.sets()
    captured.run(f"CREATE DATABASE {captured.schema}")
    rows = {name: captured.characters(name, longest) for name, longest in names.items()}
    for name in rows:
        captured.run(f"CREATE TABLE {captured.schema}.t_{name} (id int PRIMARY KEY, v mediumtext CHARACTER SET {name})")
    captured.follow("sets", "t_.*", {})
    captured.wait_streaming()
    for name, codes in rows.items():
        captured.write(name, codes)
    yield {
        name: list(compared(codes, captured.stored(name), captured.arrived(name, len(codes))))
        for name, codes in rows.items()
    }
    for connector in captured.connectors:
        connect_worker.call("DELETE", f"/connectors/{connector}")
    captured.run(f"DROP DATABASE {captured.schema}")


def compared(rows: Sequence[Sequence[str]], stored: dict[int, str], arrived: dict[int, str]) -> Iterator[Read]:
    for at, codes in enumerate(rows):
        texts = ([stored[at]], [arrived[at]]) if len(codes) == 1 else (stored[at].split(","), arrived[at].split(","))
        for code, server, event in zip(codes, *texts, strict=True):
            yield Read(code, server, event)


def judged(name: str, reads: Sequence[Read]) -> Charset:
    """The row of connectors/debezium/events/mysql_charsets.py that the characters give."""
    wrong = [read for read in reads if read.server != read.event]
    right = {char for read in reads if read.server == read.event for char in read.event}
    if not wrong:
        return Charset(name, Carriage.EXACT, len(reads))
    hidden = [read for read in wrong if SIGN not in read.event and {*read.event} <= right]
    one_byte = max(len(read.code) for read in reads) == 2
    letters = one_byte and any(unicodedata.category(c) in {"Lu", "Ll", "Lo"} for read in wrong for c in read.server)
    if hidden or letters:
        return Charset(name, Carriage.REFUSED, len(reads), len(wrong))
    signs = {char for read in wrong if SIGN not in read.event for char in read.event} - right
    return Charset(
        name,
        Carriage.DOUBTED,
        len(reads),
        len(wrong),
        ranges(signs | {SIGN} if any(SIGN in r.event for r in wrong) else signs),
    )


def ranges(characters: set[str]) -> str:
    spans: list[list[int]] = []
    for point in sorted(map(ord, characters)):
        if spans and spans[-1][1] + 1 == point:
            spans[-1][1] = point
        else:
            spans.append([point, point])
    return " ".join(f"{low:04X}" if low == high else f"{low:04X}-{high:04X}" for low, high in spans)


def test_inv_31_the_table_of_character_sets_is_what_arrives(sets: dict[str, list[Read]]) -> None:
    measured = {name: judged(name, reads) for name, reads in sets.items()}
    assert measured == {name: CHARSETS[name] for name in measured}
    assert len(measured) >= 40


def test_inv_31_wrong_text_shows_a_sign_or_its_column_is_refused(sets: dict[str, list[Read]]) -> None:
    """No character reaches the sink as another: what is neither refused nor doubted is equal."""
    for name, reads in sets.items():
        charset = CHARSETS[name]
        if charset.carriage is Carriage.REFUSED:
            continue
        signs = {chr(point) for part in charset.signs.split() for point in span(part)}
        unseen = [read for read in reads if read.server != read.event and not signs & {*read.event}]
        assert unseen == [], name


def span(part: str) -> range:
    low, _, high = part.partition("-")
    return range(int(low, 16), int(high or low, 16) + 1)
