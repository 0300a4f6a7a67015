"""`python -m tests.faults_diagnosis.soak --minutes 30`: a healthy pipeline under load must be called healthy all the time.

Rows are written and the log is rotated all along, and Connect and the source are restarted in turn. From the beginning of
such an outage until 15 s after its end the answer may also be UNKNOWN. Debezium's task fails with its server and is
restarted once that is back, which ends the outage: until then CONNECTOR_FAILED_TRANSIENT is true. Nothing else may ever
be named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from tests.faults_diagnosis.cases_connector import RETRIES_FOR_EVER
from tests.faults_diagnosis.subject import TABLES, Subject
from tests.faults_diagnosis.world import SERVERS, Helper, World, started

GRACE_SECONDS = 15.0
WRITE_EVERY = 0.05
ROTATE_EVERY = 5.0
OUTAGE_EVERY = 60.0
RESULT = Path("build/soak-diagnosis.json")


@dataclass(slots=True)
class Outages:
    """When something was down, in seconds since the beginning; the end of one under way is open."""

    spans: list[tuple[str, float, float | None]] = field(default_factory=list)

    def excuses(self, began: float, ended: float, grace: float = GRACE_SECONDS) -> bool:
        """Whether a diagnosis that ran in this time met an outage, or the time of grace after it."""
        return any(at <= ended and (end is None or began <= end + grace) for _, at, end in self.spans)


@contextmanager
def load(subject: Subject, stop: threading.Event) -> Iterator[Counter[str]]:
    """Rows and rotations from a thread of its own, until the block ends; a server that is away is waited for."""
    done: Counter[str] = Counter()

    def write() -> None:
        number, rotated = 1000, time.monotonic()
        while not stop.is_set():
            with suppress(pymysql.MySQLError, OSError), subject.mysql.connect() as link, link.cursor() as cursor:
                while not stop.wait(WRITE_EVERY):
                    number += 1
                    table = TABLES[number % len(TABLES)]
                    cursor.execute(f"INSERT INTO {subject.name}.{table} VALUES ({number}, 'soak')")
                    done["rows"] += 1
                    if time.monotonic() - rotated > ROTATE_EVERY:
                        cursor.execute("FLUSH BINARY LOGS")
                        rotated, done["rotations"] = time.monotonic(), done["rotations"] + 1

    thread = threading.Thread(target=write, name=f"load-{subject.name}")
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join(30)


def restarts(world: World, subjects: Sequence[Subject]) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is restarted, for ever, in turn."""
    while True:
        yield "Connect", world.servers.restart_connect
        for subject in subjects:
            yield f"MySQL {subject.server}", subject.restart_source


def soak(world: World, diagnoser: Helper, minutes: float) -> dict[str, Any]:
    """Watch both pipelines for so long; what was answered, and what should not have been."""
    subjects = [Subject(world, f"p{n}", server, config=RETRIES_FOR_EVER) for n, server in enumerate(SERVERS, 1)]
    for subject in subjects:
        subject.set_up()
    outages, stop = Outages(), threading.Event()
    asked: list[dict[str, Any]] = []
    began = time.monotonic()
    breaking = threading.Thread(target=_break, args=(restarts(world, subjects), outages, stop, began), name="outages")
    with load(subjects[0], stop) as first, load(subjects[1], stop) as second:
        breaking.start()
        while time.monotonic() - began < minutes * 60:
            asked += [_ask(diagnoser, subject, began) for subject in subjects]
        stop.set()
        breaking.join(120)
    false = [one for one in asked if not _fits(one, outages)]
    return {
        "minutes": minutes,
        "servers": {subject.server: subject.mysql.version for subject in subjects},
        "diagnoses": len(asked),
        "codes": dict(Counter(one["code"] for one in asked)),
        "slowest_seconds": max(one["ended"] - one["began"] for one in asked),
        "outages": [{"what": what, "from": at, "to": end} for what, at, end in outages.spans],
        "load": {"gtid": dict(first), "files": dict(second)},
        "false_alarms": false,
    }


def _break(
    turns: Iterator[tuple[str, Callable[[], object]]], outages: Outages, stop: threading.Event, began: float
) -> None:
    while not stop.wait(OUTAGE_EVERY):
        what, restart = next(turns)
        outages.spans.append((what, time.monotonic() - began, None))
        restart()
        outages.spans[-1] = (what, outages.spans[-1][1], time.monotonic() - began)


def _ask(diagnoser: Helper, subject: Subject, began: float) -> dict[str, Any]:
    at = time.monotonic() - began
    answer = diagnoser.ask(subject.name)["answer"] or {}
    told = {"pipeline": subject.server, "code": answer.get("code"), "began": round(at, 2)}
    return {**told, "ended": round(time.monotonic() - began, 2), "evidence": answer.get("evidence")}


# code → for how many seconds after an outage it may still be given
_EXCUSED = {"UNKNOWN": GRACE_SECONDS, "CONNECTOR_FAILED_TRANSIENT": 0.0}


def _fits(one: dict[str, Any], outages: Outages) -> bool:
    if one["code"] not in _EXCUSED:
        return bool(one["code"] == "HEALTHY")
    return outages.excuses(one["began"], one["ended"], _EXCUSED[one["code"]])


def main(words: Sequence[str]) -> int:
    """Exit status 0: no false alarm."""
    parser = argparse.ArgumentParser(prog="soak-diagnosis", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    minutes = parser.parse_args(words).minutes
    with (
        tempfile.TemporaryDirectory(prefix="cdc-soak-") as folder,
        started(Path(folder)) as world,
        world.helper("diagnoser") as diagnoser,
    ):
        seen = soak(world, diagnoser, minutes)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(seen, indent=2) + "\n")
    print(json.dumps({key: seen[key] for key in seen if key != "false_alarms"}, indent=2))
    for one in seen["false_alarms"]:
        print(f"FALSE ALARM {one}")
    return 1 if seen["false_alarms"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
