"""What all commands share: exit status, one-line errors, output as table, JSON or YAML, and who runs them."""

from __future__ import annotations

import functools
import json
import os
import pwd
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_cdc.core.errors import CdcError, UsageError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.text import printable
from airflow_cdc.files import replace_file
from airflow_cdc.flows.run import Run
from airflow_cdc.operators.base import LIVE, find_pipeline, open_run

PROBLEM = 1
INTERRUPTED = 130
CLI_RUN = "cli"

Rows = Sequence[Mapping[str, object]]


def command(function: Callable[[Namespace], int]) -> Callable[[Namespace], None]:
    """Turn `function` into a command: it returns the exit status; an error is one line on stderr, never a traceback.

    `--verbose` shows logs, and the traceback of an error that nobody foresaw.
    """

    @suppress_logs_and_warning
    @providers_configuration_loaded
    @functools.wraps(function)
    def run(args: Namespace) -> None:
        # connections may live in Airflow's database, which the task SDK only asks in server processes
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
        sys.exit(_status(function, args))

    return run


def _status(function: Callable[[Namespace], int], args: Namespace) -> int:
    try:
        return function(args)
    except CdcError as error:
        return complain(str(error), error.exit_status)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    except Exception as error:
        if getattr(args, "verbose", False):
            traceback.print_exc()
        text = " ".join(str(error).split())[:500]
        return complain(f"{type(error).__name__}: {text} (--verbose shows the traceback)", PROBLEM)


def complain(text: str, status: int) -> int:
    """Print an error on one line of stderr and give back `status`."""
    print(f"error: {printable(' '.join(text.split()))}", file=sys.stderr)
    return status


def emit(args: Namespace, data: Any, rows: Rows | None = None) -> None:
    """Print `data` as JSON or YAML, or `rows` (default: `data`, a list of dicts) as a table."""
    if args.output == "json":
        print(printable(json.dumps(data, indent=2, ensure_ascii=False, default=str)))
    elif args.output == "yaml":
        import yaml

        text = yaml.safe_dump(json.loads(json.dumps(data, default=str)), sort_keys=False, allow_unicode=True)
        print(printable(text), end="")
    else:
        # values are shown as they are: in Rich's markup `[binlog.000042]` would be a colour, and `[/10.0.0.7]` an error
        console = AirflowConsole(markup=False, emoji=False)
        shown = data if rows is None else rows
        console.print_as_table([{name: _printable(value) for name, value in row.items()} for row in shown])


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) else value


def pairs(facts: Mapping[str, object]) -> list[dict[str, str]]:
    """A mapping as table rows."""
    return [{"what": key, "value": _cell(value)} for key, value in facts.items()]


def _cell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def pipeline_of(args: Namespace) -> Pipeline:
    """The pipeline that the command names. Raises ConfigError or UsageError."""
    return find_pipeline(args.pipeline, args.registry)


def run_of(args: Namespace, run_id: str = CLI_RUN, *, answer_within: float | None = None) -> Run:
    """A run over it, in whose name the command acts; each system has `answer_within` seconds to answer."""
    return open_run(pipeline_of(args), run_id, lives=lives, answer_within=answer_within)


def lives(dag_id: str, run_id: str) -> bool | None:
    """Whether Airflow still carries out that run; None if its database could not be asked."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import func, select
    from sqlalchemy.exc import SQLAlchemyError

    wanted = select(func.count()).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id, DagRun.state.in_(LIVE))
    try:
        with create_session() as session:
            return bool(session.scalar(wanted))
    except SQLAlchemyError:
        return None


def tables_of(args: Namespace, pipeline: Pipeline) -> tuple[str, ...]:
    """The tables asked for, or all. Raises UsageError for one that the pipeline does not have."""
    if unknown := sorted(set(args.table or ()) - set(pipeline.source.tables)):
        known = ", ".join(pipeline.source.tables)
        raise UsageError(f"pipeline {pipeline.name} has no table {unknown[0]}", todo=f"Choose from: {known}.")
    return tuple(args.table or pipeline.source.tables)


def write_file(path: Path, text: str) -> None:
    """Write a file of a person's, whole or not at all. Raises UsageError."""
    try:
        replace_file(path, text)
    except OSError as error:
        raise UsageError(
            f"the file cannot be written: {error.strerror}", where=str(path), todo="What was there is as it was."
        ) from None


def shell_user() -> str:
    """The user of this process, as the system knows it. LOGNAME and USER, which getpass reads first, anybody can set."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # in a container
        return f"uid {uid}"
