"""The file of offsets: as Java wrote it, written again to the byte, and what is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.connectors.debezium_engine.java_map import JavaMap, NotAMapError

# of a real engine: Debezium 3.6.1, Kafka 4.3.1
REAL = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\nloadFactorI\x00\tthresholdxp"
    b"?@\x00\x00\x00\x00\x00\x0cw\x08\x00\x00\x00\x10\x00\x00\x00\x01ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp"
    b'\x00\x00\x00\x19["kafka",{"server":"ef"}]uq\x00~\x00\x02\x00\x00\x00z{"ts_sec":1795613867,"file":"mysql-bin.000001",'
    b'"pos":4,"gtids":"4f5601a6-e8d5-11f1-b161-02fc00000001:1-5","server_id":101}x'
)
KEY = b'["kafka",{"server":"ef"}]'


def test_a_real_file_is_read_and_written_again_to_the_byte() -> None:
    stored = JavaMap.from_bytes(REAL)
    assert list(stored.entries) == [KEY]
    assert (stored.entries[KEY] or b"").startswith(b'{"ts_sec":1795613867,')
    assert (stored.load_factor, stored.threshold, stored.buckets) == (0.75, 12, 16)
    assert stored.to_bytes() == REAL


def test_another_value_changes_its_bytes_alone() -> None:
    old = JavaMap.from_bytes(REAL)
    text = old.entries[KEY] or b""
    assert old.having(KEY, text.replace(b'"pos":4', b'"pos":5')).to_bytes() == REAL.replace(b'"pos":4', b'"pos":5')
    assert old.having(KEY, None).having(KEY, text).to_bytes() == REAL
    assert JavaMap().having(KEY, text).to_bytes() == REAL


@pytest.mark.parametrize("cut", range(len(REAL)))
def test_a_file_that_is_half_written_is_refused(cut: int) -> None:
    with pytest.raises(NotAMapError):
        JavaMap.from_bytes(REAL[:cut])


@pytest.mark.parametrize(
    "other",
    [
        REAL + b"x",
        REAL.replace(b"HashMap", b"TreeMap"),
        REAL.replace(b"\x00\x00\x00\x01ur", b"\x00\x00\x00\x02ur"),
        REAL.replace(KEY, b"", 1),
        b"# a properties file\n",
    ],
)
def test_anything_else_is_refused(other: bytes) -> None:
    with pytest.raises(NotAMapError):
        JavaMap.from_bytes(other)


# load factor and threshold, then places and entries, as they stand in REAL
NUMBERS = (b"?@\x00\x00\x00\x00\x00\x0c", b"\x00\x00\x00\x10\x00\x00\x00\x01")


@pytest.mark.parametrize(
    ("load_factor", "buckets"), [(0.75, 0), (0.75, -16), (0.0, 16), (1e-9, 16), (float("nan"), 16), (1e30, 16)]
)
def test_a_table_of_no_size_is_refused_and_none_grows_for_ever(load_factor: float, buckets: int) -> None:
    damaged = REAL.replace(NUMBERS[0], struct.pack(">fi", load_factor, 12))
    damaged = damaged.replace(NUMBERS[1], struct.pack(">ii", buckets, 1))
    with pytest.raises(NotAMapError, match="no map of Java's"):
        JavaMap.from_bytes(damaged)


@given(st.dictionaries(st.binary(), st.none() | st.binary(), max_size=40))
def test_what_is_written_is_read(entries: dict[bytes, bytes | None]) -> None:
    assert JavaMap.from_bytes(JavaMap(entries).to_bytes()).entries == entries


def test_a_table_of_java_grows_with_its_entries() -> None:
    stored = JavaMap()
    for number in range(40):
        stored = stored.having(str(number).encode(), b"{}")
    assert (stored.buckets, stored.threshold) == (64, 48)
