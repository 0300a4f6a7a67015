from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.amounts import Limit, parse_duration
from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.pipeline import Corrected, HoldPolicy, Policy, SinkSpec, Writer
from airflow_cdc.kinds import read_pipeline
from tests.unit.builders import PIPELINE


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("1h 30m", 5400), ("1H30M", 5400), ("90", 90), (7, 7)],
)
def test_durations(text: str | int, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2 hours", "h", "-1h", "1.5h", "2w", True, None, "2h x"])
def test_malformed_durations_are_refused(text: object) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        parse_duration(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "removed", "total", "exceeded"),
    [
        ("1%", 10, 1000, False),
        ("1%", 11, 1000, True),
        ("0.5%", 6, 1000, True),
        ("0", 1, 1000, True),
        (0, 0, 0, False),
        ("100", 100, 5, False),
        (100, 101, 10**9, True),
        ("1%", 1, 0, True),
    ],
)
def test_limits(text: str | int, removed: int, total: int, exceeded: bool) -> None:
    assert Limit.parse(text).exceeded_by(removed, total) is exceeded


@pytest.mark.parametrize("text", ["", "%", "-1%", "101%", "many", True, None])
def test_malformed_limits_are_refused(text: object) -> None:
    with pytest.raises(ConfigError, match="is not a limit"):
        Limit.parse(text)  # type: ignore[arg-type]


@given(st.integers(0, 10**9) | st.integers(0, 100).map(lambda n: f"{n}%"))
def test_limit_parse_reverses_str(value: str | int) -> None:
    assert Limit.parse(str(Limit.parse(value))) == Limit.parse(value)


def test_pipeline_survives_json() -> None:
    changed = replace(
        PIPELINE, policy=Policy(max_deletes=Limit.parse(7), notify=("a",), hold=HoldPolicy("off", 9), publish="each")
    )
    for pipeline in (PIPELINE, changed):
        again = read_pipeline(json.loads(json.dumps(pipeline.to_json())))
        assert again == pipeline
        assert again.hash == pipeline.hash
        assert read_pipeline(json.dumps(pipeline.to_json())) == pipeline


def test_any_change_of_the_definition_changes_its_hash() -> None:
    changed = [
        replace(PIPELINE, name="shop2"),
        replace(PIPELINE, source=replace(PIPELINE.source, tables=("shop.orders",))),
        replace(PIPELINE, connector=replace(PIPELINE.connector, name="x")),
        replace(PIPELINE, transport=replace(PIPELINE.transport, conn_id="x")),
        replace(PIPELINE, sink=replace(PIPELINE.sink, namespace="x")),
        replace(PIPELINE, spark=replace(PIPELINE.spark, conn_id="x")),
        replace(PIPELINE, policy=replace(PIPELINE.policy, max_deletes=Limit.parse("2%"))),
    ]
    assert len({p.hash for p in [*changed, PIPELINE]}) == len(changed) + 1


@pytest.mark.parametrize("change", [{"source": {"nope": 1}}, {"policy": {"nope": 1}}, {"policy": {"max_deletes": "x"}}])
def test_malformed_definition_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        read_pipeline({**PIPELINE.to_json(), **change})


def test_sink_table_is_the_name_without_its_schema() -> None:
    assert PIPELINE.sink_table("shop.orders") == "orders"
    assert PIPELINE.sink_table("orders") == "orders"


@pytest.mark.parametrize(
    ("writer", "corrected"),
    [
        (Writer.CDC_APPLY, Corrected.STAGED),
        (Writer.CONNECTOR, Corrected.BEFORE_START),
        (Writer.CONNECT_SINK, Corrected.THROUGH_TOPICS),
        (Writer.CONSUMERS, Corrected.THROUGH_TOPICS),
    ],
)
def test_who_writes_the_tables_says_how_they_are_put_right(writer: Writer, corrected: Corrected) -> None:
    pipeline = replace(PIPELINE, sink=SinkSpec("any", "shop", writer=writer))
    assert pipeline.corrected is corrected
    assert pipeline.is_applied is (corrected is Corrected.STAGED)


@pytest.mark.parametrize("writer", [Writer.CONNECTOR, Writer.CONNECT_SINK, Writer.CONSUMERS])
def test_tables_that_others_write_are_not_applied(writer: Writer) -> None:
    with pytest.raises(UsageError, match="a repair needs") as refused:
        replace(PIPELINE, sink=SinkSpec("any", "shop", writer=writer)).check_applied("a repair")
    assert "airflow cdc recover shop" in refused.value.todo
