"""What an engine is waited for, and in which entry of its file an offset is written. A real one: tests/integration."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from airflow_cdc.connectors.debezium_engine.java_map import JavaMap
from airflow_cdc.connectors.debezium_engine.stores.file import FileOffsets
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConnectorError
from tests.unit.connectors.debezium_engine.test_connector import KEY, OTHER, VALUE, Place, place, stored

__all__ = ["place"]


def test_an_engine_that_takes_a_moment_to_end_is_waited_for(place: Place) -> None:
    """It stores its offset once more when it ends: what is written before is lost."""
    place.runs.touch()
    later = f"import subprocess, sys; subprocess.Popen(['/bin/sh', '-c', 'sleep 0.4; rm {place.runs}'])"
    engine = place.engine(stop=(sys.executable, "-c", later))
    engine.stop("shop", timeout=20.0)
    assert not place.runs.exists()


def test_an_offset_is_written_under_the_key_as_the_engine_wrote_it(place: Place) -> None:
    """A second key of the same meaning would leave the first in force."""
    blanks = KEY.replace(",", ", ")
    place.offsets.write_bytes(stored({blanks: VALUE}))
    place.engine().offset_store("shop", {"server": "shop"}).write(OTHER)
    (written,) = FileOffsets(place.offsets).read().items()
    assert (written[0], json.loads(written[1] or "")) == (blanks, OTHER)


def test_bytes_that_are_no_text_are_shown_as_such_and_do_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "offsets.dat"
    path.write_bytes(JavaMap({b"\xff": b"\xfe", b"a": None, b"b": b"c"}).to_bytes())
    assert FileOffsets(path).read() == {"\ufffd": "\ufffd", "a": None, "b": "c"}


@pytest.mark.parametrize(("limit", "timeout"), [(1.0, 1.0), (900.0, None)])
def test_a_look_may_be_shorter_and_is_never_longer(place: Place, limit: float, timeout: float | None) -> None:
    engine = place.engine()
    limited = engine.limited(CallLimits(answer=limit))
    assert limited.endpoint.timeout == (timeout or engine.endpoint.timeout)


def test_an_offset_of_another_form_than_json_is_named(place: Place) -> None:
    place.offsets.write_bytes(JavaMap({KEY.encode(): b"no json"}).to_bytes())
    with pytest.raises(ConnectorError):
        place.engine().entries("shop")
