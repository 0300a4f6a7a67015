"""Names, arguments and help of `airflow cdc …`. Imported by every `airflow` command: implementations load lazily."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, cast

from airflow.cli.cli_config import ARG_VERBOSE, ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command
from rich.markup import escape

from airflow_cdc.cli.questions import example, headed
from airflow_cdc.core.setup import Question, flag
from airflow_cdc.decisions.diagnosis.strategy import AUTO, STRATEGIES

COMMANDS = "airflow_cdc.cli.commands"
OFFSETS = "airflow_cdc.cli.offsets"
OUTLOOK = "airflow_cdc.cli.forecast"
EXPLAIN = "airflow_cdc.cli.explain"
LETTERS = "airflow_cdc.cli.dead_letters"
REPAIR = "airflow_cdc.cli.repair"
RUNS = "airflow_cdc.cli.runs"

INIT = "airflow_cdc.cli.init"

_untyped_arg = cast("Callable[..., Arg]", Arg)


def _arg(flags: tuple[str, ...], *, help: str, **kwargs: Any) -> Arg:  # noqa: A002 - argparse's own word
    """An argument whose help is shown as it is written: Airflow prints help through Rich, to which `[cdc]` is a colour."""
    arg = _untyped_arg(flags, help=escape(help))
    cast("Any", arg).kwargs |= kwargs  # not all of argparse's are parameters of Arg
    return arg


class _Grouped(Arg):
    """An argument under a heading of its command's help. Airflow sorts by name: without one, Canal's come first."""

    def __init__(self, question: Question, heading: str) -> None:
        cast("Any", super()).__init__(flags=(flag(question.key),), default=None, help=escape(_told(question)))
        self.heading = heading

    def add_to_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add it below its heading; the headings stand in the order of the questions."""
        have = {str(group.title): group for group in parser._action_groups}  # noqa: SLF001 - argparse names no other way
        if HEADINGS[0] not in have:
            have |= {heading: parser.add_argument_group(heading) for heading in HEADINGS}
        group: Any = have[self.heading]
        group.add_argument(*self.flags, **self.kwargs)


def _told(question: Question) -> str:
    """The help of a question's flag."""
    return f"{question.text} (default: {question.default})" if question.default else question.text


ARG_OUTPUT = _arg(
    ("-o", "--output"),
    help="Output format (default: table)",
    choices=("table", "json", "yaml"),
    default="table",
)
ARG_REGISTRY = _arg(("--registry",), help="Path of pipelines.yaml (default: [cdc] registry)", default=None)
ARG_PIPELINE = _arg(("pipeline",), help="Name of the pipeline in pipelines.yaml")
ARG_PIPELINES = _arg(("pipeline",), nargs="*", help="Names of pipelines (default: all)")
ARG_TABLES = _arg(("--table",), action="append", default=None, help="Only this table (schema.table); may be repeated")
ARG_STRATEGY = _arg(
    ("--strategy",),
    default=AUTO,
    help=f"Recovery strategy: {AUTO} (the cheapest safe one, default), {', '.join(STRATEGIES)}",
)
ARG_APPROVE = _arg(
    ("--yes",), action="store_true", help="Approve the plan in advance, even if it loses or removes rows"
)
ARG_DRY_RUN = _arg(("--dry-run",), action="store_true", help="Only list the rows that would be written and deleted")
ARG_SURE = _arg(("--yes",), action="store_true", help="Do not ask for confirmation")
ARG_WAIT = _arg(("--wait",), action="store_true", help="Wait for the run to end and report the result")
ARG_TIMEOUT = _arg(
    ("--timeout",), type=float, default=21600.0, help="Maximum number of seconds to wait (default: 21600)"
)
ARG_SECONDS = _arg(
    ("--seconds",), type=float, default=7200.0, help="Release the log after this many seconds (default: 7200)"
)
ARG_NOTE = _arg(("--note",), default="", help="Reason, stored in the report")
ARG_REASON = _arg(("--reason",), required=True, help="Reason, stored in the audit and shown by the diagnosis")
ARG_RUN_ID = _arg(("--run-id",), default=None, help="Run (default: the newest with a report)")
ARG_TIMELINE = _arg(("--timeline",), action="store_true", help="Show where the run's seconds went, and not its tables")
ARG_FILE = _arg(("--file",), default=None, help="File to write (default: beside the pipeline's reports)")
ARG_BACKUP_FILE = _arg(
    ("file",), nargs="?", help="A file that `offset backup` wrote (default: the backup taken before the last move)"
)
ARG_VALUE = _arg(("value",), help="The new offset as a JSON object")
ARG_NEW = _arg(
    ("--pipeline",),
    default=None,
    help="Add this pipeline; at a terminal, asks for whatever the other options leave out",
)
ARG_ANSWERS = tuple(_Grouped(question, heading) for heading, question in headed())
# after the questions: what a group of no question would be is left out by itself
HEADINGS = tuple(dict.fromkeys(heading for heading, _ in headed()))
ARG_STUB = _arg(
    ("--stub",),
    nargs="?",
    const="",
    default=None,
    help="Write small DAG files into this folder (default: [core] dags_folder), instead of a DAG bundle to paste",
)

STATUS = "Exit status: 0 healthy or done, 1 problem or failed run, 2 usage or configuration, 3 unknown."
PLAIN = (ARG_OUTPUT, ARG_REGISTRY, ARG_VERBOSE)


EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "doctor": ("doctor", "doctor shop -o json"),
    "pipelines": ("pipelines", "pipelines -o yaml"),
    "diagnose": ("diagnose shop", "diagnose shop -o json | jq .code"),
    "plan": ("plan shop", "plan shop --strategy full_snapshot"),
    "forecast": ("forecast shop", "forecast shop -o json"),
    "hold": ("hold shop --seconds 3600",),
    "explain": ("explain < connect.log",),
    "recover": ("recover shop --wait", 'recover shop --table shop.orders --yes --note "binlog purged"'),
    "abandon": ('abandon shop --table shop.orders --reason "the table was dropped"',),
    "verify": ("verify shop", "verify shop --table shop.orders"),
    "proof": ("proof shop --table shop.orders", "proof shop --run-id manual__2026-11-21T09:00:00+00:00 -o json"),
    "check": ("check shop --wait",),
    "apply": ("apply shop --wait", "apply shop --table shop.orders --wait"),
    "repair": ("repair shop --table shop.orders --dry-run", "repair shop --table shop.orders --wait"),
    "get": ("offset get shop",),
    "backup": ("offset backup shop --file shop-offset.json",),
    "restore": ("offset restore shop shop-offset.json",),
    "set": ("""offset set shop '{"file": "binlog.000042", "pos": 4}'""",),
    "list": ("dead-letters list shop", "dead-letters list shop --table shop.orders"),
    "replay": ("dead-letters replay shop",),
    "init": (
        "init",
        "init --stub",
        f"init --pipeline shop {example()}",
    ),
}


def _action(name: str, text: str, *args: Arg, module: str = COMMANDS, function: str = "") -> ActionCommand:
    target = f"{module}.{function or name.replace('-', '_')}"
    examples = "\n".join(f"  airflow cdc {line}" for line in EXAMPLES[name])
    return ActionCommand(
        name=name,
        help=escape(text),
        func=lazy_load_command(target),
        args=(*args, *PLAIN),
        description=escape(f"{text}."),
        epilog=escape(f"Examples:\n{examples}\n\n{STATUS}"),
    )


def _offset() -> GroupCommand:
    return GroupCommand(
        name="offset",
        help="Show, back up and change a connector's offset",
        subcommands=(
            _action("get", "Show the stored offset", ARG_PIPELINE, module=OFFSETS),
            _action("backup", "Write the stored offset to a file", ARG_PIPELINE, ARG_FILE, module=OFFSETS),
            _action("restore", "Restore a backup", ARG_PIPELINE, ARG_BACKUP_FILE, ARG_SURE, module=OFFSETS),
            _action("set", "Write an offset", ARG_PIPELINE, ARG_VALUE, ARG_SURE, module=OFFSETS, function="set_offset"),
        ),
    )


def _dead_letters() -> GroupCommand:
    of = (ARG_PIPELINE, ARG_TABLES)
    return GroupCommand(
        name="dead-letters",
        help="Events that could not be applied",
        subcommands=(
            _action("list", "List them with the reasons", *of, module=LETTERS, function="list_letters"),
            _action("replay", "Read their rows again from the source", *of, module=LETTERS),
        ),
    )


def _reading() -> tuple[ActionCommand, ...]:
    """Those that look and change nothing."""
    return (
        _action("doctor", "Check beforehand that recoveries can work", ARG_PIPELINES),
        _action("pipelines", "List the pipelines of pipelines.yaml"),
        _action("diagnose", "Say what is wrong with a pipeline; changes nothing", ARG_PIPELINE),
        _action("plan", "Say what a recovery would do; changes nothing", ARG_PIPELINE, ARG_STRATEGY),
        _action("forecast", "Say when the stored position will be purged", ARG_PIPELINE, module=OUTLOOK),
        _action("hold", "Keep the log from being purged until Ctrl-C", ARG_PIPELINE, ARG_SECONDS, module=OUTLOOK),
        _action(
            "explain", "Name the problem that a log on stdin describes (exit status 1: one is named)", module=EXPLAIN
        ),
    )


def _recovering() -> tuple[ActionCommand, ...]:
    return (
        _action(
            "recover",
            "Recover a pipeline: read its tables again, move the position, compare every row, publish",
            ARG_PIPELINE,
            ARG_TABLES,
            ARG_STRATEGY,
            ARG_APPROVE,
            ARG_WAIT,
            ARG_TIMEOUT,
            ARG_NOTE,
        ),
        _action(
            "abandon",
            "Give up an open recovery, or some of its tables",
            ARG_PIPELINE,
            ARG_TABLES,
            ARG_REASON,
        ),
    )


def _comparing() -> tuple[ActionCommand, ...]:
    return (
        _action(
            "verify",
            "Compare with the source now, changing nothing, and wait for the verdict of each table",
            ARG_PIPELINE,
            ARG_TABLES,
            ARG_TIMEOUT,
            module=RUNS,
        ),
        _action(
            "proof",
            "Show what the last comparison proved, table by table; compares nothing",
            ARG_PIPELINE,
            ARG_TABLES,
            ARG_RUN_ID,
            ARG_TIMELINE,
        ),
        _action("check", "Trigger the nightly check now", ARG_PIPELINE, ARG_WAIT, ARG_TIMEOUT, module=RUNS),
    )


def _changing() -> tuple[ActionCommand, ...]:
    return (
        _action(
            "apply",
            "Apply the events that wait now (DAG cdc_apply__PIPELINE)",
            ARG_PIPELINE,
            ARG_TABLES,
            ARG_WAIT,
            ARG_TIMEOUT,
            module=RUNS,
        ),
        _action(
            "repair",
            "Rewrite the rows that differ from the source (DAG cdc_repair)",
            ARG_PIPELINE,
            ARG_TABLES,
            ARG_DRY_RUN,
            ARG_APPROVE,
            ARG_WAIT,
            ARG_TIMEOUT,
            ARG_NOTE,
            module=REPAIR,
        ),
    )


def _init() -> ActionCommand:
    return _action(
        "init",
        "Write a first pipelines.yaml or add a pipeline, and show how to make Airflow load the DAGs",
        ARG_STUB,
        ARG_NEW,
        *ARG_ANSWERS,
        module=INIT,
    )


def get_cdc_cli_commands() -> list[CLICommand]:
    """The group `cdc`. Exit status: 0 healthy or done, 1 problem or failed run, 2 usage or configuration, 3 unknown."""
    commands = (*_reading(), *_recovering(), *_comparing(), *_changing(), _offset(), _dead_letters(), _init())
    return [
        GroupCommand(name="cdc", help="Diagnose, recover and prove change-data-capture pipelines", subcommands=commands)
    ]
