"""MySQL's values in Canal's texts: what no kept example of Spark's expressions says."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from airflow_cdc.connectors.canal.capture import CanalCapture
from airflow_cdc.connectors.canal.events.mysql import CanalValues
from airflow_cdc.connectors.canal.events.zones import EPOCH, MICRO, instant_of, rules_of, zone_of
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mysql.types import MySqlWords, mysql_column
from tests.apply_support import ITEMS
from tests.unit.connectors.canal.settings import FOLLOWED

LATIN = mysql_column("c", 9, MySqlWords("varchar", "varchar(9)", char_length=9, charset="latin1"))
STAMP = mysql_column("at", 2, MySqlWords("timestamp", "timestamp(6)", fsp=6))


@pytest.mark.parametrize(
    ("zone", "twice"),
    [("UTC", 0), ("Asia/Shanghai", 0), ("Europe/Berlin", 1), ("Australia/Lord_Howe", 1), ("America/Sao_Paulo", 1)],
)
def test_a_local_time_is_the_instant_that_it_was_written_for_or_none_where_there_are_two(zone: str, twice: int) -> None:
    """Lord Howe's clock goes back by half an hour."""
    by_name, by_rules, rng, doubled = ZoneInfo(zone), zone_of(rules_of(zone)), Random(zone), 0
    changes = [datetime(2015, 1, 1, tzinfo=UTC) + timedelta(minutes=30 * n) for n in range(2 * 24 * 365)]
    for instant in [*changes, *(EPOCH + timedelta(seconds=rng.randrange(2**31)) for _ in range(2_000))]:
        local = instant.astimezone(by_name)
        double = local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
        doubled += double
        found = instant_of(local.replace(tzinfo=None, fold=0), by_rules)
        assert found == (None if double else (instant - EPOCH) // MICRO), local
    assert bool(doubled) is bool(twice)


def test_they_travel_to_executors_that_have_no_time_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(CanalValues("Asia/Shanghai"))
    monkeypatch.setattr("airflow_cdc.connectors.canal.events.mysql.rules_of", None)
    values = pickle.loads(sent)  # noqa: S301 - of one's own
    assert values.value(STAMP).read("2021-03-28 10:30:00.000001") == 1_616_898_600_000_001


def test_a_time_of_a_zone_that_nobody_has_said_is_no_value_and_its_table_is_refused() -> None:
    with pytest.raises(SchemaError, match="which is not known"):
        CanalValues().check_table(Table("shop", "t", (*ITEMS.columns[:1], STAMP), ("id",)))
    with pytest.raises(ValueError):
        CanalValues().value(STAMP).read("2021-03-28 10:30:00")


def test_every_column_that_is_not_carried_is_named_at_once() -> None:
    stamps = (replace(STAMP, ordinal=10), replace(STAMP, name="a`b", ordinal=11))
    odd = replace(ITEMS, columns=(*ITEMS.columns, LATIN, *stamps))
    with pytest.raises(SchemaError) as error:
        CanalCapture.from_config({**FOLLOWED, "connector.time_zone": ""}).check_table(odd)
    for said in ("c (latin1 text is decoded as UTF-8)", "at (a TIMESTAMP is written", "a`b (a backtick in its name"):
        assert said in str(error.value)


def test_the_way_out_is_the_one_that_the_settings_tell() -> None:
    assert CanalValues().way_out == CanalCapture.from_config(FOLLOWED).doubt_way_out
