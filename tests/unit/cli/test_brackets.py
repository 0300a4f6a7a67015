"""What stands in brackets reaches the reader: the console that commands print to takes `[…]` for colours unless told not to."""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
import yaml
from airflow.cli.cli_config import ActionCommand, GroupCommand
from rich.console import Console

from airflow_cdc.cli import add_pipeline as added
from airflow_cdc.cli import commands, init, offsets, runs, trigger
from airflow_cdc.cli import forecast as outlook
from airflow_cdc.cli import repair as repairing
from airflow_cdc.cli import run as running
from airflow_cdc.cli.definition import get_cdc_cli_commands
from airflow_cdc.cli.progress import telling
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.core.check import Check
from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.core.forecast import Forecast
from airflow_cdc.core.hold import HoldState, HoldStatus
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.core.setup import Question
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.strategy import Plan
from airflow_cdc.flows.forecast import PipelineForecast
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.reports.store import ReportStore, safe
from airflow_cdc.reports.stored import RunSummary
from airflow_cdc.sinks.iceberg.client import Lake
from demo.show import Show
from tests.unit.builders import HEALTHY
from tests.unit.cli.test_commands import REPORT
from tests.unit.conftest import REGISTRY, Answer

# a closing tag that closes nothing ends the command; a known tag, an unknown one and an emoji vanish
HOSTILE = "[/a:3306] [cdc] [red]x[/red] :boom:"
CLOSED = "[/10.0.0.7:3306]"


class Scene:
    """What a case puts in the place of servers, and of Airflow."""

    def __init__(self, spec: Any, registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spec = spec
        self.registry = registry
        self.monkeypatch = monkeypatch

    def run(self) -> None:
        """The run in whose name commands about offsets and dead letters act."""
        self.monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "shell")
        clients = self.clients = create_autospec(Parts, instance=True)
        clients.sink = create_autospec(Lake, instance=True)
        clients.sink.staging = clients.sink.letters = clients.sink
        clients.connector = create_autospec(DebeziumConnector, instance=True)
        stored: dict[str, Any] = {"partition": {"server": HOSTILE}, "offset": {"file": HOSTILE, "pos": 4}}
        clients.connector.entries.return_value = (OffsetEntry(stored["partition"], stored["offset"]),)
        self.spec(running, "open_run", Run(HEALTHY.pipeline, clients, "cli", str(self.registry.parent / "reports")))
        self.spec(offsets, "stored", stored)
        self.spec(offsets, "move", {"before": {"file": HOSTILE}, "after": {}})
        self.spec(offsets, "last_before", {"file": HOSTILE, "pos": 4})

    def abandoned(self) -> None:
        self.run()
        self.spec(commands, "abandon_recovery", {"tables": [HOSTILE]})

    def diagnosed(self) -> None:
        self.spec(commands, "observe", HEALTHY)
        evidence = {"read from": HOSTILE}
        self.spec(commands, "diagnosis_of", Diagnosis("BINLOG_PURGED", "Purged.", evidence, (), "there"))
        plan = Plan("none", (), "nothing", destructive=False, needs_approval=False, reason=HOSTILE)
        self.spec(commands, "make_plan", plan)

    def report(self) -> None:
        tables = [{**table, "table": HOSTILE} for table in REPORT["tables"]]
        report, store = RecoveryReport.from_json({**REPORT, "tables": tables}), ReportStore(str(self.reports))
        store.keep_report(report)
        store.keep_run("shop", RunSummary.of(report, safe(report.run_id), "2026-11-21T09:00:00+00:00"))

    @property
    def reports(self) -> Path:
        return self.registry.parent / "reports"

    def ended(self) -> None:
        ended = trigger.Ended("success", {HOSTILE: "success"})
        self.spec(trigger, "start", "r_1")
        self.spec(trigger, "follow", ("r_1", ended))
        self.spec(trigger, "wait", ended)
        self.spec(trigger, "left", {})
        self.closed()

    def closed(self) -> None:
        for module in (repairing, runs):
            self.spec(module, "refuse_while_open", None)

    def keys(self) -> None:
        self.ended()
        folder = self.reports / "shop" / "r_1"
        folder.mkdir(parents=True)
        key = {"action": "delete", "why": "ghosts", "key": [HOSTILE]}
        (folder / "repair.json").write_text(json.dumps({"shop.orders": [key]}))

    def started(self) -> None:
        self.spec(trigger, "start", HOSTILE)
        self.closed()

    def checks(self) -> None:
        self.spec(commands, "doctor_installation", [Check("installation", "java", "ok", HOSTILE, HOSTILE)])
        self.spec(commands, "airflow_checks", [])
        self.spec(commands, "pipeline_checks", [])

    def tables(self) -> None:
        self.registry.write_text(REGISTRY.replace("shop.orders]", f'"shop.{HOSTILE}"]'))

    def foreseen(self) -> None:
        self.run()
        forecast = Forecast(7000.0, 9000.0, 1.5, 60.0, HOSTILE)
        outcome = PipelineForecast("shop", "now", "b.000009:4", forecast, 21600, False, 60.0, None, True)
        self.spec(outlook, "forecast_pipeline", outcome)

    def held(self) -> None:
        self.run()
        state = HoldState("shop:by hand", HoldStatus.REFUSED, blocks_purge=False, reason=HOSTILE, held_s=0.0)
        self.spec(outlook, "hold_by_hand", state)

    def log(self) -> None:
        line = f"ERROR {HOSTILE} Could not find first log file name in binary log index file {CLOSED}\n"
        self.monkeypatch.setattr("sys.stdin", io.StringIO(line))

    def letters(self) -> None:
        self.run()
        letter = DeadLetter("t", "i", 0, 1, None, None, "shop.orders", HOSTILE, 1, datetime.now(UTC))
        self.clients.sink.unresolved_letters.return_value = (letter,)

    def first(self) -> None:
        folder = self.registry.parent / HOSTILE.replace("/", "")
        folder.mkdir()
        self.monkeypatch.setenv("AIRFLOW__CDC__REGISTRY", str(folder / "pipelines.yaml"))

    def added(self) -> None:
        self.monkeypatch.setenv("CDC_MYSQL_PASSWORD", "x")
        self.spec(added, "create", {"connection": HOSTILE})
        self.spec(init, "pipeline_checks", [Check("bank", "source", "ok", HOSTILE)])


CASES: Mapping[tuple[str, ...], Callable[[Scene], None]] = {
    ("doctor",): Scene.checks,
    ("pipelines",): Scene.tables,
    ("diagnose", "shop"): Scene.diagnosed,
    ("plan", "shop"): Scene.diagnosed,
    ("forecast", "shop"): Scene.foreseen,
    ("hold", "shop"): Scene.held,
    ("explain",): Scene.log,
    ("recover", "shop"): Scene.started,
    ("recover", "shop", "--wait"): Scene.ended,
    ("verify", "shop"): Scene.ended,
    ("proof", "shop"): Scene.report,
    ("check", "shop"): Scene.started,
    ("check", "shop", "--wait"): Scene.ended,
    ("apply", "shop"): Scene.started,
    ("apply", "shop", "--wait"): Scene.ended,
    ("repair", "shop"): Scene.started,
    ("repair", "shop", "--dry-run"): Scene.keys,
    ("abandon", "shop", "--reason", "x"): Scene.abandoned,
    ("offset", "get", "shop"): Scene.run,
    ("offset", "backup", "shop"): Scene.run,
    ("offset", "restore", "shop", "--yes"): Scene.run,
    ("offset", "set", "shop", json.dumps({"file": HOSTILE, "pos": 4}), "--yes"): Scene.run,
    ("dead-letters", "list", "shop"): Scene.letters,
    ("dead-letters", "replay", "shop"): Scene.started,
    ("init",): Scene.first,
    ("init", "--pipeline", "bank", "--mysql", "db", "--tables", "bank.a", "--connector", "bank"): Scene.added,
}


def leaves(group: GroupCommand, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for one in group.subcommands:
        path = (*above, one.name)
        if isinstance(one, ActionCommand):
            yield path
        else:
            yield from leaves(one, path)


(GROUP,) = get_cdc_cli_commands()
COMMANDS = list(leaves(GROUP)) if isinstance(GROUP, GroupCommand) else []


def plain(text: str) -> str:
    """Without what a narrow column puts between: blanks, line ends and the lines between columns."""
    return re.sub(r"[\s|]", "", text)


def test_every_command_has_a_case() -> None:
    assert {path for path in COMMANDS if any(words[: len(path)] == path for words in CASES)} == set(COMMANDS)
    assert len(COMMANDS) >= 17


@pytest.fixture
def scene(spec: Any, registry: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(spec, registry, monkeypatch)


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_a_table_shows_what_stands_in_brackets(
    words: tuple[str, ...], cdc: Callable[..., Answer], scene: Scene
) -> None:
    CASES[words](scene)
    answer = cdc(*words)
    assert not answer.err.startswith("error:"), answer.err
    wanted = HOSTILE.replace("/", "") if words == ("init",) else HOSTILE
    assert plain(wanted) in plain(answer.out)


@pytest.mark.parametrize("words", CASES, ids=" ".join)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_are_not_escaped(
    words: tuple[str, ...], form: str, cdc: Callable[..., Answer], scene: Scene
) -> None:
    CASES[words](scene)
    wanted = HOSTILE.replace("/", "") if words == ("init",) else HOSTILE
    assert wanted in json.dumps(yaml.safe_load(cdc(*words, "-o", form).out))  # JSON is YAML, too


def test_a_log_that_names_an_address_is_explained(cdc: Callable[..., Answer], scene: Scene) -> None:
    scene.log()
    answer = cdc("explain")
    assert (answer.status, CLOSED in answer.out) == (1, True)


# ---- help, prompts, progress ----------------------------------------------------------------------


def parser_of(path: tuple[str, ...]) -> argparse.ArgumentParser:
    from airflow.cli import cli_parser

    parser: argparse.ArgumentParser = cli_parser.get_parser()
    for word in ("cdc", *path):
        (choices,) = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        parser = choices.choices[word]
    return parser


def texts(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What a help says, as its author meant it."""
    written = [parser.description, parser.epilog, *(action.help for action in parser._actions)]
    yield from (text.replace("\\[", "[") for text in written if text and text != argparse.SUPPRESS)


@pytest.mark.parametrize("path", [(), ("offset",), ("dead-letters",), *COMMANDS], ids=" ".join)
def test_help_shows_what_stands_in_brackets(path: tuple[str, ...], cdc: Callable[..., Answer]) -> None:
    answer = cdc(*path, "--help")
    assert answer.status == 0
    missing = [text for text in texts(parser_of(path)) if plain(text) not in plain(answer.out)]
    assert missing == []


def test_the_default_registry_is_named_in_the_help(cdc: Callable[..., Answer]) -> None:
    assert "(default: [cdc] registry)" in cdc("doctor", "--help").out


def test_an_error_shows_what_stands_in_brackets(cdc: Callable[..., Answer], spec: Any) -> None:
    spec(commands, "load_registry", ZeroDivisionError(HOSTILE))
    assert HOSTILE in cdc("pipelines").err


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_what_stands_in_brackets(terminal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    with telling(Console(file=screen, force_terminal=terminal, width=150)) as teller:
        teller.seen(trigger.Ended("running", {HOSTILE: "running"}))
        teller.say(HOSTILE)
    shown = screen.getvalue() + capsys.readouterr().err
    assert shown.count(HOSTILE) >= 2


def test_a_question_shows_what_stands_in_brackets(
    cdc: Callable[..., Answer], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.run()
    terminal = io.StringIO("yes\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    answer = cdc("offset", "set", "shop", json.dumps({"file": HOSTILE, "pos": 4}))
    assert answer.status == 0
    assert answer.out.count(HOSTILE) >= 3


def test_the_questions_of_init_show_what_stands_in_brackets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert added._ask(Question("spark", HOSTILE, HOSTILE)) == HOSTILE
    assert f"{HOSTILE} [{HOSTILE}]: " in capsys.readouterr().out


def test_the_demo_shows_what_stands_in_brackets() -> None:
    """Debezium's own words are quoted there."""
    screen = io.StringIO()
    show = Show(Console(file=screen, width=200, highlight=False, emoji=False))
    for say in (show.title, show.line, show.problem, show.quote):
        say(HOSTILE)
    show.tables(HOSTILE, (HOSTILE, "b"), [(HOSTILE, 1)])
    assert screen.getvalue().count(HOSTILE) == 7
