"""`python -m tests.faults_diagnosis [case …]`: make faults, ask for the diagnosis, compare. Exit status 0: all as expected."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from stack.versions import mysql_series
from tests.faults_diagnosis import cases_connector, cases_sink, cases_source
from tests.faults_diagnosis.case import Case
from tests.faults_diagnosis.subject import Subject
from tests.faults_diagnosis.world import Diagnoser, World, started

# those that change a server for good come last
ALL: tuple[Case, ...] = (*cases_connector.CASES, *cases_sink.CASES, *cases_source.CASES)
RESULT = Path("build/faults-diagnosis.json")
NOT_RUN = "the recovery is not run here: see tests/e2e"


def main(words: Sequence[str]) -> int:
    """Run the cases named (default: all) and write build/faults-diagnosis.json."""
    parser = argparse.ArgumentParser(prog="faults-diagnosis", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"one of {', '.join(case.name for case in ALL)}")
    wanted = parser.parse_args(words).cases
    there = existing()
    if unknown := sorted(set(wanted) - {case.name for case in there}):
        parser.error(f"there is no case {unknown[0]}")
    chosen = [case for case in there if not wanted or case.name in wanted]
    with tempfile.TemporaryDirectory(prefix="cdc-faults-") as folder, started(Path(folder)) as world:
        results = run(world, chosen)
    Console(width=200).print(as_table(results))
    return 0 if all(row["right"] for row in results) else 1


def existing() -> list[Case]:
    """The cases that exist on the chosen server; each that does not is named, with the reason."""
    if mysql_series() != "mariadb":
        return list(ALL)
    for case in ALL:
        if case.not_on_mariadb:
            print(f"{case.name}: not on MariaDB, {case.not_on_mariadb}", file=sys.stderr)
    return [case for case in ALL if not case.not_on_mariadb]


def run(world: World, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """One result per case, in order."""
    results = []
    with world.diagnoser() as diagnoser:
        for number, case in enumerate(cases, 1):
            began = time.monotonic()
            results.append(one(world, diagnoser, case, f"p{number:02}"))
            keep(results)  # with every case: a run that is cut off has said what it saw
            print(
                f"{case.name}: {results[-1]['given']} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True
            )
    return results


def one(world: World, diagnoser: Diagnoser, case: Case, name: str) -> dict[str, Any]:
    """Make one fault, have it diagnosed, see what the connector itself says, and clean up."""
    subject = Subject(world, name, case.server, case.keyless, case.config)
    row: dict[str, Any] = {
        "case": case.name,
        "fault": case.fault,
        "server": subject.version.name,
        "expected": case.code(subject),
        "given": None,
        "plan": None,
        "verdict": None,
        "verdict_reason": NOT_RUN,
    }
    try:
        if case.set_up:
            subject.set_up()
        case.make(subject)
        row.update(told(diagnoser.diagnose(name)))
        row["connector_says"] = subject.says()
    except Exception as error:  # one fault that could not be made must not hide the others
        row["error"] = f"{type(error).__name__}: {error}"
    finally:
        clean_up(case, subject)
    return {**row, "right": row["given"] == row["expected"]}


def clean_up(case: Case, subject: Subject) -> None:
    """The connector goes, and the servers are as before; a connector that is gone already is no matter."""
    for step in (*((case.undo,) if case.undo else ()), Subject.delete):
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
        "plan": "refused" if plan.get("refused") else plan.get("strategy"),
        "data_loss": plan.get("data_loss"),
        "reason": plan.get("reason"),
    }


def keep(results: list[dict[str, Any]]) -> None:
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


def as_table(results: Sequence[dict[str, Any]]) -> Table:
    table = Table("fault", "server", "expected", "given", "plan", "seconds", "what the connector itself says")
    for row in results:
        given = row["given"] if row["right"] else f"[bold red]{row['given']} {row.get('error', '')[:80]}[/]"
        says = str(row.get("connector_says", ""))[:160]
        table.add_row(row["fault"], row["server"], row["expected"], given, row["plan"], str(row.get("seconds")), says)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
