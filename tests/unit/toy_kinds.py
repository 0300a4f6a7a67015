"""Kinds of no system, as another distribution would declare them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from airflow_cdc import kinds
from airflow_cdc.core.kind import Lazy, SourceKind, TransportKind
from airflow_cdc.core.pipeline import SourceSpec, TransportSpec
from airflow_cdc.core.settings import key, settings

NOTHING: Lazy[Any] = Lazy("airflow_cdc.kinds:SOURCES")


@settings
class ToySettings(SourceSpec):
    """A source with a key of its own that must be written."""

    slot: str = key("The replication slot.", kw_only=True)


SOURCE = SourceKind("toy", "Toy", ToySettings, endpoint=NOTHING, client=NOTHING, hook=NOTHING)
TRANSPORT = TransportKind("toy", "Toy queue", TransportSpec, endpoint=NOTHING, client=NOTHING, hook=NOTHING)


def declare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a distribution with entry points of these kinds were installed."""
    points = {
        "sources": {"toy": EntryPoint("toy", f"{__name__}:SOURCE", "airflow_cdc.sources")},
        "transports": {"toy": EntryPoint("toy", f"{__name__}:TRANSPORT", "airflow_cdc.transports")},
    }
    monkeypatch.setattr(kinds, "_others", lambda wing: points.get(wing, {}))
