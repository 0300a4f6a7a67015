"""Any position of any source, written as each connector stores it and read again: the connector would start exactly there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.core.position import Position
from airflow_cdc.kinds import CONNECTORS, read_position
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition, file_after, moved_in_files
from airflow_cdc.sources.postgres.position import Lsn, PgPosition

UUIDS = ("75ac0c48-7f6b-11f0-9c3a-0242ac110002", "3e11fa47-71ca-11e1-9e33-c80aa9429562")
PLACES = st.tuples(st.sampled_from(["mysql-bin", "a.b"]), st.integers(1, 10**7), st.integers(4, 2**32)).map(
    lambda one: (f"{one[0]}.{one[1]:06}", one[2])
)
SPANS = st.tuples(st.integers(1, 9), st.integers(0, 9)).map(lambda one: (one[0], one[0] + one[1]))
SETS = st.dictionaries(st.sampled_from(UUIDS), st.lists(SPANS, min_size=1, max_size=3), min_size=1).map(
    lambda spans: GtidSet(tuple((uuid, "", tuple(one)) for uuid, one in spans.items()))
)
DOMAINS = st.dictionaries(st.integers(0, 2), st.integers(1, 9), min_size=1).map(
    lambda numbers: Domains(tuple(MariaDbGtid(domain, 1, number) for domain, number in numbers.items()))
)
MYSQL = st.builds(lambda place, gtids: MySqlPosition(place[0], place[1], gtids), PLACES, st.none() | SETS)
MARIADB = st.builds(lambda place, domains: MariaDbPosition(place[0], place[1], domains), PLACES, DOMAINS)
POSTGRES = st.builds(lambda lsn: PgPosition(Lsn(lsn)), st.integers(1, 2**63 - 1))
POSITIONS = {"mysql": MYSQL, "mariadb": MARIADB, "postgres": POSTGRES}
ADDRESS = ("127.0.0.1", 3306)


def codec_of(connector: str, source: str) -> OffsetCodec:
    made = CONNECTORS[connector].reads[source].codec
    assert made is not None
    codec: OffsetCodec = made.load()()
    # a cursor of Canal carries the server's address; a pipeline's codec knows it
    return replace(codec, address=ADDRESS, by_gtid=True) if isinstance(codec, CursorCodec) else codec


PAIRS = sorted((connector, source) for connector in CONNECTORS.built_in for source in CONNECTORS[connector].reads)


def test_the_pairs_are_those_of_all_connectors() -> None:
    assert {connector for connector, _ in PAIRS} == {"debezium", "debezium_engine", "canal", "flink"}
    assert len(PAIRS) == 8
    assert {source for _, source in PAIRS} == set(POSITIONS)


@pytest.mark.parametrize(("connector", "source"), PAIRS)
def test_a_connector_starts_exactly_where_it_is_told_to(connector: str, source: str) -> None:
    codec = codec_of(connector, source)

    @given(POSITIONS[source], st.integers(0, 2**31))
    def each(position: Any, written: int) -> None:
        raw = codec.at(position, written)
        assert codec.faults(raw) == ()
        offset = codec.read(json.loads(json.dumps(dict(raw))), {})
        assert (offset.fault, offset.position) == ("", position)
        assert position.covers(offset.position) is True
        assert offset.position is not None
        assert offset.position.covers(position) is True

    each()


@pytest.mark.parametrize(("connector", "source"), PAIRS)
def test_a_move_to_the_same_place_neither_skips_nor_repeats(connector: str, source: str) -> None:
    codec = codec_of(connector, source)

    @given(POSITIONS[source])
    def each(position: Any) -> None:
        said = codec.moved(codec.at(position, 1), codec.at(position, 2))
        assert "skips" not in said
        assert "repeats" not in said

    each()


@pytest.mark.parametrize(("connector", "source"), PAIRS)
def test_a_position_of_another_source_is_never_written(connector: str, source: str) -> None:
    codec = codec_of(connector, source)

    @given(st.one_of(*(positions for name, positions in POSITIONS.items() if name != source)))
    def each(position: Any) -> None:
        with pytest.raises(PositionError):
            codec.at(position, None)

    each()


ANY = st.one_of(*POSITIONS.values())


@given(ANY)
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    again = read_position(json.loads(json.dumps(position.to_json())))
    assert (again, str(again)) == (position, str(position))


@given(ANY, ANY)
def test_nothing_follows_from_positions_of_two_sources_and_each_covers_itself(one: Position, other: Position) -> None:
    assert one.covers(one) is True
    assert one.kind == other.kind or one.covers(other) is None


@pytest.mark.parametrize("source", POSITIONS)
def test_what_covers_what_covers_a_third_covers_it_too(source: str) -> None:
    # few places, so that many cover each other
    few = {
        "mysql": SETS.map(lambda gtids: MySqlPosition("mysql-bin.000001", 4, gtids)),
        "mariadb": DOMAINS.map(lambda domains: MariaDbPosition("mysql-bin.000001", 4, domains)),
        "postgres": st.integers(1, 5).map(lambda lsn: PgPosition(Lsn(lsn))),
    }[source]

    @given(few, few, few)
    def each(one: Any, other: Any, third: Any) -> None:
        if one.covers(other) and other.covers(third):
            assert one.covers(third) is True

    each()


@given(PLACES, PLACES)
def test_a_move_within_files_is_told_by_their_order(one: tuple[str, int], other: tuple[str, int]) -> None:
    old, new = BinlogPosition(*one), BinlogPosition(*other)
    said = moved_in_files(old, new)
    if not old.comparable(new):
        assert "cannot be compared" in said
    else:
        assert ("skips" in said, "repeats" in said) == (new > old, new < old)


@given(st.lists(st.integers(1, 30), max_size=8), st.integers(1, 30))
def test_the_file_after_another_is_the_next_one_that_is_there(numbers: list[int], here: int) -> None:
    files = [f"mysql-bin.{number:06}" for number in numbers]
    later = [number for number in numbers if number > here]
    expected = f"mysql-bin.{min(later):06}" if later else None
    assert file_after([*files, "other.000099"], f"mysql-bin.{here:06}") == expected
