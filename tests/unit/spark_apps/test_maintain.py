"""Where a table's unread events begin, as its maintenance is told."""

from __future__ import annotations

from typing import Any, cast

import pytest

from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.spark_apps import maintain as application
from airflow_cdc.spark_apps.maintain import first_unread
from airflow_cdc.spark_apps.ports import Unread
from tests.unit.builders import PIPELINE

TOPIC = "shop.shop.orders"


class Capture:
    """A connector's settings."""

    def topic_of(self, table: str) -> str:
        return f"shop.{table}"


@pytest.mark.parametrize(
    ("offsets", "unread"),
    [
        ({TOPIC: {0: 7, 1: 4}, "shop": {0: 1}}, Unread(3, 4)),  # statements have a topic and offsets of their own
        ({"shop": {0: 9}}, Unread(3, 0)),
        ({}, Unread(3, 0)),
        (None, None),
    ],
)
def test_unread_events_begin_at_the_lowest_offset_of_the_table_s_topic(
    offsets: dict[str, dict[int, int]] | None, unread: Unread | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {topic: TopicOffsets("", nexts) for topic, nexts in (offsets or {}).items()}
    stamp = None if offsets is None else Stamp(3, None, known)

    class Sink:
        @property
        def staging(self) -> Sink:
            return self

        def stamp(self, _namespace: str, _table: str) -> Stamp | None:
            return stamp

    class Run:
        pipeline = PIPELINE

        class clients:  # noqa: N801
            sink = Sink()

    monkeypatch.setattr(application, "connector_settings", lambda _run: Capture())
    assert first_unread(cast("Any", Run), "shop.orders") == unread
