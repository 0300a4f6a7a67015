"""`airflow cdc offset`: what is stored, a copy of it, and moving it with everything that guards the move."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.cli import offsets
from airflow_cdc.cli import run as running
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.core.errors import OffsetRejectedError
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from tests.unit.builders import HEALTHY
from tests.unit.conftest import Answer

HERE: dict[str, Any] = {"partition": {"server": "shop"}, "offset": {"file": "b.000001", "pos": 4}}
MOVED = {"before": HERE["offset"], "after": {"file": "b.000002", "pos": 4}, "moves": "skips", "at": "now"}


@pytest.fixture
def shop(spec: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The run in whose name the offset commands act; nothing is asked of a server, and whoever has a shell may."""
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "shell")
    clients = create_autospec(Parts, instance=True)
    clients.connector = create_autospec(DebeziumConnector, instance=True)
    clients.connector.entries.return_value = (OffsetEntry({"server": "shop"}, HERE["offset"]),)
    run = Run(HEALTHY.pipeline, clients, "cli", "/reports")
    spec(running, "open_run", run)
    spec(offsets, "stored", HERE)
    return run


def test_offset_get_and_backup(cdc: Callable[..., Answer], shop: Any, tmp_path: Path) -> None:
    assert cdc("offset", "get", "shop", "-o", "json").data[0]["offset"] == {"file": "b.000001", "pos": 4}
    answer = cdc("offset", "backup", "shop", "-o", "json")
    kept = json.loads(Path(answer.data["wrote"]).read_text())
    assert (kept["connector"], kept["offset"], kept["partition"]) == (
        "shop",
        {"file": "b.000001", "pos": 4},
        {"server": "shop"},
    )
    named = cdc("offset", "backup", "shop", "--file", str(tmp_path / "o.json"), "-o", "json")
    assert named.data["wrote"] == str(tmp_path / "o.json")


def test_offset_restore_moves_to_what_the_file_holds(
    cdc: Callable[..., Answer], shop: Any, spec: Any, tmp_path: Path
) -> None:
    move = spec(offsets, "move", MOVED)
    file = str(tmp_path / "o.json")
    cdc("offset", "backup", "shop", "--file", file)
    answer = cdc("offset", "restore", "shop", file, "--yes", "-o", "json")
    assert (answer.status, answer.data) == (0, MOVED)
    assert move.call_args.args[1] == {"file": "b.000001", "pos": 4}
    assert move.call_args.kwargs["shown"] == {"file": "b.000001", "pos": 4}
    assert "@" in move.call_args.kwargs["who"]


def test_offset_restore_without_a_file_undoes_the_last_move(cdc: Callable[..., Answer], shop: Any, spec: Any) -> None:
    move = spec(offsets, "move", MOVED)
    spec(offsets, "last_before", {"file": "b.000000", "pos": 4})
    assert cdc("offset", "restore", "shop", "--yes").status == 0
    assert move.call_args.args[1] == {"file": "b.000000", "pos": 4}


@pytest.mark.parametrize("words", [("set", "shop", '{"file": "b.000001", "pos": 4}'), ("restore", "shop")])
def test_an_offset_is_moved_by_nobody_that_airflow_does_not_know(
    words: tuple[str, ...], cdc: Callable[..., Answer], shop: Any, spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "token")
    monkeypatch.delenv("AIRFLOW_CLI_TOKEN", raising=False)
    spec(offsets, "last_before", {"file": "b.000000", "pos": 4})
    move = spec(offsets, "move", MOVED)
    answer = cdc("offset", *words, "--yes")
    assert (answer.status, move.call_count) == (2, 0)
    assert "token of an Airflow user" in answer.err


def test_an_offset_that_was_rejected_is_one_line(cdc: Callable[..., Answer], shop: Any, spec: Any) -> None:
    spec(offsets, "move", OffsetRejectedError("not valid: no file"))
    answer = cdc("offset", "set", "shop", "{}", "--yes")
    assert (answer.status, answer.err) == (1, "error: not valid: no file\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "shop", "pos=4", "--yes"), "not a JSON object"),
        (("set", "shop", '{"file": "b.000001", "pos": 4}'), "Add --yes"),
        (("restore", "shop", "/nowhere/o.json", "--yes"), "can't be read: No such file"),
    ],
)
def test_an_offset_command_that_is_not_clear_changes_nothing(
    words: tuple[str, ...], said: str, cdc: Callable[..., Answer], shop: Any, spec: Any
) -> None:
    move = spec(offsets, "move", MOVED)
    answer = cdc("offset", *words)
    assert (answer.status, move.call_count) == (2, 0)
    assert said in answer.err
