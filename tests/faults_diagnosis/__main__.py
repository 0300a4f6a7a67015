"""`python -m tests.faults_diagnosis [case …]`: make faults, ask for the diagnosis, compare. Exit status 0: all as expected."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from stack.versions import MARIADB, MYSQL_DEFAULT, mysql_series
from tests.faults_diagnosis import (
    canal,
    cases_canal,
    cases_connector,
    cases_flink,
    cases_postgres,
    cases_sink,
    cases_source,
    cases_unfollowed,
    flink,
    postgres,
    unfollowed,
)
from tests.faults_diagnosis.case import Case
from tests.faults_diagnosis.subject import Subject
from tests.faults_diagnosis.verdict import MATCH, NOT_APPLIED, REFUSED, after_recovery
from tests.faults_diagnosis.world import Helper, World, started

# those that change a server for good come last
ALL: tuple[Case, ...] = (*cases_connector.CASES, *cases_sink.CASES, *cases_source.CASES)
RESULT = Path("build/faults-diagnosis.json")


@dataclass(frozen=True, slots=True)
class Suite:
    """The faults of one kind, and the servers that they are made on; `of_mysql_8`: of that series alone."""

    cases: Callable[[], Sequence[Case]]
    opened: Callable[[Path, set[str]], AbstractContextManager[World]]
    of_mysql_8: bool = False


def main(words: Sequence[str]) -> int:
    """Run the cases named (default: all) and write build/faults-diagnosis.json."""
    parser = argparse.ArgumentParser(prog="faults-diagnosis", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help="some of them; all by default")
    parser.add_argument(
        "--source", choices=("mysql", "postgres"), default="mysql", help="whose faults (STACK_MYSQL: which)"
    )
    parser.add_argument(
        "--connector",
        choices=("debezium", "flink", "canal", "unfollowed"),
        default="debezium",
        help="whose faults; flink, canal: of MySQL 8.0 alone; unfollowed: Debezium whose events nobody here follows",
    )
    arguments = parser.parse_args(words)
    suite = SUITES.get((arguments.source, arguments.connector))
    if suite is None or (suite.of_mysql_8 and mysql_series() != MYSQL_DEFAULT):
        parser.error(f"{arguments.connector} is tested on MySQL {MYSQL_DEFAULT} alone")
    wanted, there = arguments.cases, suite.cases()
    if unknown := sorted(set(wanted) - {case.name for case in there}):
        parser.error(f"there is no case {unknown[0]}")
    chosen = [case for case in there if not wanted or case.name in wanted]
    servers = {*(case.server for case in chosen), *(server for case in chosen for server in case.beside)}
    with tempfile.TemporaryDirectory(prefix="cdc-faults-") as made, suite.opened(Path(made), servers) as world:
        results = run(world, chosen)
    Console(width=200).print(as_table(results))
    return 0 if all(row["right"] for row in results) else 1


def existing() -> list[Case]:
    """The cases that exist on the chosen server; each that does not is named, with the reason."""
    if mysql_series() not in MARIADB:
        return list(ALL)
    for case in ALL:
        if case.not_on_mariadb:
            print(f"{case.name}: not on MariaDB, {case.not_on_mariadb}", file=sys.stderr)
    return [case for case in ALL if not case.not_on_mariadb]


# by source and connector
SUITES = {
    ("mysql", "debezium"): Suite(existing, lambda folder, _servers: started(folder)),
    ("postgres", "debezium"): Suite(lambda: cases_postgres.CASES, postgres.started),
    ("mysql", "flink"): Suite(lambda: cases_flink.CASES, lambda folder, _servers: flink.started(folder), True),
    ("mysql", "unfollowed"): Suite(lambda: cases_unfollowed.MYSQL_CASES, unfollowed.started, True),
    ("postgres", "unfollowed"): Suite(lambda: cases_unfollowed.POSTGRES_CASES, unfollowed.started),
    ("mysql", "canal"): Suite(lambda: cases_canal.CASES, canal.started, True),
}


def run(world: World, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """One result per case, in order."""
    results = []
    with world.helper("diagnoser") as diagnoser, world.helper("recoverer") as recoverer:
        for number, case in enumerate(cases, 1):
            began = time.monotonic()
            results.append(one(world, (diagnoser, recoverer), case, f"p{number:02}"))
            keep(results)  # with every case: a run that is cut off has said what it saw
            said = f"{results[-1]['given']}, {results[-1]['verdict']}"
            print(f"{case.name}: {said} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    return results


def one(world: World, helpers: tuple[Helper, Helper], case: Case, name: str) -> dict[str, Any]:
    """Make one fault, have it diagnosed, see what the connector itself says, have the plan carried out, and clean up."""
    subject, (diagnoser, recoverer) = case.pipeline(world, name, case.server, case.keyless, case.config), helpers
    row: dict[str, Any] = {
        "case": case.name,
        "fault": case.fault,
        "server": subject.version.name,
        "expected": case.code(subject),
        "given": None,
        "plan": None,
        "verdict": None,
    }
    try:
        if case.set_up:
            subject.set_up()
        case.make(subject)
        heads = subject.heads()
        row.update(told(diagnoser.ask(name)))
        row["touched"] = subject.heads() != heads  # a diagnosis reads
        if case.others is not None:
            row["others"] = []
            for one in case.others(subject, diagnoser):
                row["others"].append(asdict(one))
        row["connector_says"] = subject.says() if case.asked else "not asked: it would run, and skip rows"
        row.update(after_recovery(subject, recoverer, str(row["plan"]), case.asked_for(subject)))
    except Exception as error:  # one fault that could not be made must not hide the others
        row["error"] = f"{type(error).__name__}: {error}"
    finally:
        clean_up(case, subject)
    return {**row, "right": right(row)}


def right(row: dict[str, Any]) -> bool:
    """The code that was expected, nothing touched by looking, what else was asked, and a recovery that leaves both sides equal."""
    recovered = row["verdict"] in (MATCH, NOT_APPLIED) or row["plan"] == REFUSED
    others = all(one["right"] for one in row.get("others", [])) and "error" not in row
    return row["given"] == row["expected"] and row.get("touched") is False and recovered and others


def clean_up(case: Case, subject: Subject) -> None:
    """The connector goes, and the servers are as before; a connector that is gone already is no matter."""
    for step in (*((case.undo,) if case.undo else ()), lambda one: one.delete()):
        try:
            step(subject)
        except Exception as error:
            print(f"{case.name}, cleaning up: {error}", file=sys.stderr)


def told(said: dict[str, Any]) -> dict[str, Any]:
    """What the diagnosis answered, as the result keeps it."""
    answer = said["answer"] or {}
    plan = answer.get("plan") or {}
    return {
        "given": answer.get("code"),
        "status": said["status"],
        "seconds": said["seconds"],
        "evidence": answer.get("evidence"),
        "plan": REFUSED if plan.get("refused") else plan.get("strategy"),
        "data_loss": plan.get("data_loss"),
        "reason": plan.get("reason"),
    }


def keep(results: list[dict[str, Any]]) -> None:
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


def as_table(results: Sequence[dict[str, Any]]) -> Table:
    table = Table("fault", "server", "expected", "given", "plan", "verdict", "what the connector itself says")
    for row in results:
        given = row["given"] if row["right"] else f"[bold red]{row['given']} {row.get('error', '')[:80]}[/]"
        says = str(row.get("connector_says", ""))[:160]
        verdict = row["verdict"] or row.get("verdict_reason")
        table.add_row(row["fault"], row["server"], row["expected"], given, row["plan"], verdict, says)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
