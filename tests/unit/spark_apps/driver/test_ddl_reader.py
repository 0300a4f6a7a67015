"""A schema-change topic is read once for all tables that ask for the same range, and again after an error."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.core.errors import TransportError
from airflow_cdc.spark_apps.driver.systems import KEPT_RANGES, ddl_reader
from airflow_cdc.spark_apps.ports import Bounds


@dataclass(slots=True)
class Broker:
    """A transport and a decoder that count how often they are asked; the first `fails` readings fail."""

    where: str = "kafka"
    fails: int = 0
    asked: list[Bounds] = field(default_factory=list)

    def records(self, topic: str, bounds: Bounds) -> Iterator[str]:
        self.asked.append(bounds)
        if len(self.asked) <= self.fails:
            raise TransportError("the broker is away", where=topic, todo="Wait.")
        return iter([f"{topic} {sorted(bounds.items())}"])

    def statements(self, records: Iterator[str], where: str) -> list[str]:
        return [f"{where}: {record}" for record in records]


def reader(broker: Broker) -> Any:
    run: Any = SimpleNamespace(clients=SimpleNamespace(transport=broker))
    decoder: Any = broker
    return ddl_reader(run, decoder)


def test_tables_side_by_side_read_a_range_once() -> None:
    broker = Broker()
    read = reader(broker)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: tuple(read("shop", {0: (5, 9)})), range(40)))
    assert set(answers) == {("kafka, topic shop: shop [(0, (5, 9))]",)}
    assert broker.asked == [{0: (5, 9)}]


def test_another_range_is_another_reading_and_only_some_are_kept() -> None:
    broker = Broker()
    read = reader(broker)
    for begin in (*range(KEPT_RANGES + 1), KEPT_RANGES, 0):
        assert read("shop", {0: (begin, 99)}) == [f"kafka, topic shop: shop [(0, ({begin}, 99))]"]
    assert len(broker.asked) == KEPT_RANGES + 2


def test_an_error_is_not_kept() -> None:
    broker = Broker(fails=1)
    read = reader(broker)
    with pytest.raises(TransportError, match="the broker is away"):
        read("shop", {0: (0, 1)})
    assert read("shop", {0: (0, 1)})
