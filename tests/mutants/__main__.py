"""`make mutants`: change the code, run the fast tests that execute the changed line, and count what they notice → build/mutants.

`--room` names rooms of tests/mutants/rooms.py (each in turn without it), `--n` and `--seed` the sample; `--directed` makes the
changes of tests/mutants/directed.toml and of the tables instead, `--bodies` empties public functions. Exit status 1 under the goal.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.mutants import nursery
from tests.mutants.bodies import bodies
from tests.mutants.change import Change
from tests.mutants.directed import directed
from tests.mutants.equivalent import Equivalents
from tests.mutants.executed import KEPT, Executed, bring_up_to_date
from tests.mutants.operators import changes
from tests.mutants.rooms import ROOMS, Room, room_of
from tests.mutants.session import Session, with_tests
from tests.paths import ROOT

# of each so many changes one changes nothing: a test that fails then says nothing of the others
CONTROL_EVERY: Final = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one change: killed, survived, untested (no fast test executes the line) or equivalent."""

    change: Change
    word: str
    by: str = ""
    seconds: float = 0.0
    tests: int = 0


def sample(room: Room, n: int, seed: int) -> list[Change]:
    """`n` random changes of a room, the same for the same seed and code."""
    every = [change for file in room.files() for change in changes(file)]
    return random.Random(f"{room.name} {seed}").sample(every, min(n, len(every)))


def touched() -> list[str]:
    """The files of rooms that differ from main's."""
    done = subprocess.run(
        ("git", "diff", "--name-only", "main...HEAD"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    known = {file for room in ROOMS for file in room.files()}
    return [file for file in done.stdout.split() if file in known]


class Trial:
    """Tries changes: those of functions in forks of one process that has collected the tests, the others each in a new one."""

    def __init__(self, jobs: int) -> None:
        self.executed = Executed.read()
        self.equivalents = Equivalents.read()
        self.jobs = jobs

    def of(self, made: Sequence[Change], deadline: float, name: str) -> Iterator[Verdict]:
        """The verdicts, as they come; what has no place before the deadline (monotonic) is left out. `name`: of the run's results."""
        left = list[Change]()
        for change in made:
            if self.equivalents.reason(change):
                yield Verdict(change, "equivalent")
            elif not self.executed.tests(change):
                yield Verdict(change, "untested")
            else:
                left.append(change)
        path = KEPT / f"{name}.session"
        path.unlink(missing_ok=True)
        self._in_session(left, path, deadline)
        tried = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            number, ran = json.loads(line)
            tried[number] = nursery.Ran(**ran)
            yield self._verdict(left[number], tried[number])
        for number, change in enumerate(left):
            if number not in tried and time.monotonic() < deadline:
                yield self._verdict(change, nursery.run_tests(self.executed.tests(change), change, self._limit(change)))

    def _in_session(self, made: Sequence[Change], path: Path, deadline: float) -> None:
        """Try those that a session can, and write how the tests ended: a line of JSON for each."""
        files = {test.partition("::")[0] for change in made for test in self.executed.tests(change)}

        def work(session: Session) -> None:
            with ThreadPoolExecutor(self.jobs) as pool, path.open("w") as out:
                able = [n for n, one in enumerate(made) if session.can_try(one, self.executed.tests(one))]

                def attempt(n: int) -> tuple[int, nursery.Ran] | None:
                    if time.monotonic() > deadline:
                        return None
                    return n, session.run(self.executed.tests(made[n]), made[n], self._limit(made[n]))

                for done in filter(None, pool.map(attempt, able)):
                    out.write(json.dumps([done[0], asdict(done[1])]) + "\n")
                    out.flush()
                    print("killed:" if done[1].noticed else "SURVIVED:", made[done[0]], flush=True)

        def collect() -> int:
            nursery.end_with_this_process()
            with_tests(sorted(files), work)
            return 0

        if files:
            with tempfile.TemporaryDirectory(prefix="cdc-mutant-") as folder:
                nursery.forked(collect, Path(folder), max(0.0, deadline - time.monotonic()) + 600, KEPT / "session.out")

    def _limit(self, change: Change) -> float:
        return 60 + 10 * sum(self.executed.seconds[test] for test in self.executed.tests(change))

    def _verdict(self, change: Change, ran: nursery.Ran) -> Verdict:
        word = "killed" if ran.noticed else "survived"
        said = ran.said or ("time" if ran.code is None else "")
        return Verdict(change, word, said, ran.seconds, len(self.executed.tests(change)))

    def controls(self, made: Sequence[Change]) -> list[str]:
        """Tests that fail although nothing was changed."""
        wrong = []
        for change in made[::CONTROL_EVERY]:
            tests = self.executed.tests(change)
            if tests and (ran := nursery.run_tests(tests, None, self._limit(change))).noticed:
                wrong.append(ran.said or "time")
        return wrong


def told(verdicts: Sequence[Verdict]) -> str:
    """The last line: the counts, and what share of those that are not equivalent was noticed."""
    count = {
        word: sum(1 for one in verdicts if one.word == word)
        for word in ("killed", "survived", "untested", "equivalent")
    }
    return f"{count['killed']} killed, {count['survived'] + count['untested']} survived, {count['equivalent']} equivalent: {share(verdicts):.1%}"


def share(verdicts: Sequence[Verdict]) -> float:
    """The share of the changes that are not equivalent which was noticed; 1.0 of none."""
    counted = [one for one in verdicts if one.word != "equivalent"]
    return sum(1 for one in counted if one.word == "killed") / len(counted) if counted else 1.0


def keep(name: str, verdicts: Sequence[Verdict]) -> None:
    """Keep the results, and what was not noticed as a text."""
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{name}.json").write_text(json.dumps([asdict(one) for one in verdicts], indent=1))
    left = [f"{one.word}: {one.change}" for one in verdicts if one.word in {"survived", "untested"}]
    (KEPT / f"{name}.txt").write_text("\n".join([*left, told(verdicts), ""]))


def by_room(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Room → its verdicts."""
    found: dict[str, list[Verdict]] = {}
    for one in verdicts:
        found.setdefault(room_of(one.change.file).name, []).append(one)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.mutants")
    parser.add_argument("--room", default="", help="names of rooms; touched: the files that differ from main's")
    parser.add_argument("--n", type=int, default=40, help="changes of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directed", action="store_true")
    parser.add_argument("--bodies", action="store_true")
    parser.add_argument("--record", action="store_true", help="only record which tests execute which lines")
    parser.add_argument("--tests", default="", help="record only test files whose names have one of these words")
    parser.add_argument("--only", default="", help="only changes whose file, function or rule has this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=600.0, help="no change is begun after so many minutes")
    return parser.parse_args()


def made(args: argparse.Namespace) -> list[Change]:
    """The changes that were asked for."""
    rooms = [room for room in ROOMS if not args.room or room.name in args.room.split()]
    if args.directed:
        found = [change for change in directed() if room_of(change.file) in rooms]
    elif args.room == "touched":
        every = [change for file in touched() for change in changes(file)]
        found = random.Random(args.seed).sample(every, min(args.n, len(every)))
    elif args.bodies:
        found = [change for room in rooms for file in room.files() for change in bodies(file)]
    else:
        found = [change for room in rooms for change in sample(room, args.n, args.seed)]
    return [one for one in found if any(args.only in text for text in (one.file, one.scope, one.rule))]


def main() -> int:
    args = arguments()
    os.chdir(ROOT)
    nursery.end_with_this_process()
    nursery.warm_up()
    bring_up_to_date(args.tests.split())
    if args.record:
        return 0
    trial = Trial(args.jobs)
    verdicts: list[Verdict] = []
    wanted = made(args)
    kind = "directed" if args.directed else "bodies" if args.bodies else f"seed-{args.seed}"
    name = f"{kind}{'-' + args.room.replace(' ', '-') if args.room else ''}"
    for one in trial.of(wanted, time.monotonic() + 60 * args.minutes, name):
        verdicts.append(one)
        if one.word in {"survived", "untested"}:
            print(f"{one.word}: {one.change}", flush=True)
    wrong = trial.controls(wanted)
    keep(name, verdicts)
    under = []
    for name, of_room in by_room(verdicts).items():
        goal = next(room.goal for room in ROOMS if room.name == name)
        print(f"{name}: {told(of_room)} (goal {goal:.0%})")
        under += [name] if share(of_room) < goal else []
    for name in wrong:
        print(f"fails although nothing was changed, so nothing is proven by it: {name}")
    print(f"{len(wanted) - len(verdicts)} not tried; under the goal: {', '.join(under) or 'none'}")
    print(f"mutants: {told(verdicts)}")
    return 1 if under or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
