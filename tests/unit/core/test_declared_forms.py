"""What is loaded by name and what forms ask for; positions, and numbers in texts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest

from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.kind import Lazy
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.setup import HTTPS, form_field
from airflow_cdc.decisions.compare.json_text import json_number
from airflow_cdc.decisions.table_id import is_rebuilt
from airflow_cdc.kinds import CONNECTORS, SINKS, SOURCES, TRANSPORTS
from tests.unit.builders import WATERMARK

# --- loaded by name -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lazy", "found"),
    [
        (Lazy("airflow_cdc.core.kind:Lazy"), True),
        (Lazy(".kind:Lazy", "airflow_cdc.core"), True),
        (Lazy("datetime:UTC"), False),
    ],
)
def test_an_object_is_loaded_by_the_name_of_its_module(lazy: Lazy[Any], found: bool) -> None:
    assert lazy.load() is (Lazy if found else UTC)


@pytest.fixture
def module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of somebody else's that imports what is not installed."""
    (tmp_path / "their_kind.py").write_text("import not_installed_here\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "their_kind"


def test_what_somebody_else_s_module_misses_is_not_our_extra_to_install(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="not_installed_here"):
        Lazy(f"{module}:kind", extra="kafka").load()


def test_what_a_module_of_ours_misses_is_told_with_the_extra_that_installs_it(
    module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    import airflow_cdc.core

    monkeypatch.setattr(airflow_cdc.core, "__path__", [*airflow_cdc.core.__path__, str(tmp_path)])
    whole: Lazy[Any] = Lazy(f"airflow_cdc.core.{module}:kind", extra="kafka")
    beside: Lazy[Any] = Lazy(f".{module}:kind", "airflow_cdc.core", extra="kafka")
    for lazy in (whole, beside):
        with pytest.raises(ConfigError, match="'not_installed_here' is not installed") as caught:
            lazy.load()
        assert "[kafka]" in caught.value.todo


# --- forms --------------------------------------------------------------------------------------------------------------------

KINDS = [*SOURCES.values(), *CONNECTORS.values(), *TRANSPORTS.values(), *SINKS.values()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_of_a_connection_s_form_may_be_left_empty(kind: Any) -> None:
    """Airflow checks what it stores by these schemas, and a connection that was made elsewhere lacks fields."""
    form = kind.form.load() if kind.form is not None else {}
    for name, field in _fields(form):
        assert "null" in field["schema"]["type"], name
        assert field["label"], name


def _fields(form: Any) -> list[tuple[str, Any]]:
    if not isinstance(form, dict):
        return []
    own = [(name, one) for name, one in form.items() if isinstance(one, dict) and "label" in one and "schema" in one]
    return own + [found for name, one in form.items() if (name, one) not in own for found in _fields(one)]


def test_the_certificate_of_an_address_is_checked_unless_somebody_says_otherwise() -> None:
    assert HTTPS["verify"]["schema"] == {"type": ["boolean", "null"], "default": True}
    assert HTTPS["key_password"]["schema"] == {"type": ["string", "null"], "format": "password"}
    texts = {name: field["schema"] for name, field in HTTPS.items() if name in ("ca_file", "cert_file", "key_file")}
    assert texts == {key: {"type": ["string", "null"]} for key in ("ca_file", "cert_file", "key_file")}
    assert "description" not in form_field("A label")
    assert form_field("A label", "Why")["description"] == "Why"


# --- positions ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "meant"),
    [
        (datetime(2026, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None), datetime(2026, 1, 1, 12, tzinfo=UTC)),
        (datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))), datetime(2026, 1, 1, 10, tzinfo=UTC)),
    ],
)
def test_a_server_s_time_without_a_zone_is_utc(taken: datetime, meant: datetime) -> None:
    watermark = Watermark(WATERMARK.position, " AB ", taken)
    assert (watermark.taken_at, watermark.server) == (meant, "ab")
    assert watermark.taken_at.tzinfo is not None
    assert datetime.fromisoformat(str(watermark.to_json()["taken_at"])) == meant


# --- values -------------------------------------------------------------------------------------------------------------------


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Painted:
    colour: Colour
    free: Any = None
    maybe: Colour | None = None


def test_a_named_value_is_read_by_its_name_and_no_other_is() -> None:
    one = Painted(Colour.RED, [1], Colour.RED)
    again = read(Painted, plain(one))
    assert again == one
    assert type(again.colour) is Colour
    assert read(Painted, {"colour": "red"}) == Painted(Colour.RED)
    with pytest.raises(ValueError, match="green"):
        read(Painted, {"colour": "green"})


@pytest.mark.parametrize(
    ("before", "now", "rebuilt"),
    [
        ("ids:7", "ids:7,8", False),
        ("ids:7,x", "ids:7", True),
        ("ids:x,7", "ids:7", True),
        ("ids:7", "ids:7,x", True),
        ("ids:", "ids:7", True),
        ("ids:7-9", "ids:7-8,9", False),
        ("ids:1-200000", "ids:1-200000", False),
        ("ids:1-200000", "ids:1-200001", True),
    ],
)
def test_inv_13_ids_of_which_a_part_cannot_be_read_prove_nothing_equal(before: str, now: str, rebuilt: bool) -> None:
    assert is_rebuilt(before, now) is rebuilt


BINARY = 1e-05  # not exactly: Debezium prints all digits of what a double holds


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.5", 0.5), ("1.0", 1), ("-0.0", 0), ("1e2", 100), ("1.5E1", 15), ("4.9E-324", 5e-324), ("1e+300", 1e300),
        (f"{Decimal(BINARY):f}", BINARY), ("1e-05", 1e-05), ("0.1", 0.1),
    ],
)  # fmt: skip
def test_a_number_of_a_json_document_is_the_same_in_every_connector_s_spelling(text: str, number: float) -> None:
    found = json_number(text)
    assert found == number
    assert type(found) is type(number)
