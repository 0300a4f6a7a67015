"""A run says where its minutes went."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

from tests.paths import ROOT
from tests.times import waits
from tests.times.parts import STEPS, Part, budget
from tests.times.report import PartTimes, RunTimes, lines, over_budget
from tests.times.runner import Runner
from tests.times.sampler import dumped
from tests.times.waits import Call

POLL = Call("/r/stack/process.py", "wait_until")
TEST = Call("/r/tests/integration/test_x.py", "test_x")


def test_a_server_that_starts_is_named_and_not_the_poll_by_which_it_is_waited_for() -> None:
    stack = (Call("/lib/threading.py", "wait"), POLL, Call("/r/stack/mysql.py", "wait_ready"), TEST)
    assert waits.read(stack) == waits.Wait("MySQL's start", "stack/mysql.py:wait_ready")


def test_a_server_that_ends_before_it_starts_again_is_an_end() -> None:
    stack = (POLL, Call("/r/stack/process.py", "end"), Call("/r/stack/postgres.py", "restart_postgres"), TEST)
    assert waits.read(stack).kind == "a server's end"


def test_a_poll_names_the_function_that_polls() -> None:
    assert waits.read((POLL, TEST)) == waits.Wait("a poll", "tests/integration/test_x.py:test_x")


def test_what_is_not_known_is_work_of_python() -> None:
    assert waits.read((TEST,)).kind == waits.COMPUTES


def test_the_functions_of_a_thread_are_read_from_what_was_written_of_all(tmp_path: Path) -> None:
    waiting = threading.Event()
    other = threading.Thread(target=waiting.wait)
    other.start()
    with (tmp_path / "dump").open("w+b") as scratch:
        dump = dumped(scratch)
    waiting.set()
    own, others = waits.calls(dump, threading.get_ident()), waits.calls(dump, other.ident or 0)
    assert own[0].name == "dumped"
    assert own[1] == Call(__file__, "test_the_functions_of_a_thread_are_read_from_what_was_written_of_all")
    assert (others[0].name, others[-1].name) == ("wait", "_bootstrap")
    assert waits.calls(dump, 7) == ()


def test_a_file_is_measured_with_what_its_tests_wait_for_and_the_processes_that_they_start(tmp_path: Path) -> None:
    (tmp_path / "test_slow.py").write_text(
        "import subprocess, sys, threading\n"
        "def test_computes():\n"
        "    spin = 'import time\\nend = time.process_time() + 1\\nwhile time.process_time() < end: pass'\n"
        "    subprocess.run([sys.executable, '-c', spin], check=True)\n"
        "def test_waits():\n"
        "    threading.Event().wait(1)\n"
    )
    (tmp_path / "conftest.py").write_text("from tests.times import plugin\npytest_configure = plugin.register\n")
    out = tmp_path / "times.json"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "--rootdir", str(tmp_path), str(tmp_path)]
    env = {"PYTHONPATH": str(ROOT), "CDC_TEST_TIMES": str(out), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (one for one in json.loads(out.read_text()) if one["file"] == "test_slow.py")
    assert file["tests"] == 2
    assert file["seconds"] >= 2
    assert file["processor"] >= 1
    assert file["waits"]["another process"] >= 0.5
    assert file["waits"]["another thread"] >= 0.5


def run(seconds: float, budget: float, file_seconds: float) -> RunTimes:
    file = {
        "file": "tests/x.py", "worker": "gw0", "seconds": file_seconds, "processor": 1.0, "tests": 2, "megabytes": 9,
        "waits": {"MySQL's start": 6.0}, "places": {"MySQL's start | stack/mysql.py:wait_ready": 5.0},
    }  # fmt: skip
    part = PartTimes("lint", 0.0, seconds, 1.0, budget, 0, (file,))
    return RunTimes("2026-11-27 12:00", "abc", "2 cores", seconds, 0.5, (part,))


def test_a_part_over_its_budget_and_a_file_of_over_four_minutes_are_named_at_the_end() -> None:
    assert over_budget(run(90, 90, 240)) == []
    assert over_budget(run(91, 90, 241)) == [
        "over its budget: lint took 91 s of 90 s",
        "over four minutes: tests/x.py (241 s)",
    ]


def test_the_tables_name_each_part_file_and_wait(tmp_path: Path) -> None:
    run(91, 90, 10).write(tmp_path / "times.json")
    text = "\n".join(lines(RunTimes.read(tmp_path / "times.json")))
    assert "| lint | 0 | 91 | 1 | 90 |" in text
    assert "| x.py | gw0 | 2 | 10 | 1 | 9 | 9 | MySQL's start 6 |" in text
    assert "| MySQL's start | 6 | stack/mysql.py:wait_ready 5 |" in text


def shell(name: str, text: str) -> Part:
    return Part(name, ("sh", "-c", text), 60)


def test_a_step_begins_only_when_every_lane_of_the_one_before_has_passed(tmp_path: Path) -> None:
    both = shell("both", f"test -e {tmp_path}/a && test -e {tmp_path}/b")
    steps = (((shell("a", f"touch {tmp_path}/a"),), (shell("b", f"touch {tmp_path}/b"),)), ((both,),))
    runner = Runner(tmp_path)
    assert runner.run(steps) == 0
    assert {part.name: part.status for part in runner.parts} == {"a": 0, "b": 0, "both": 0}


def test_a_part_that_fails_fails_the_run_and_nothing_begins_after_it(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    lanes = ((shell("fails", "exit 3"), shell("after it", "true")), (shell("beside it", "true"),))
    assert runner.run((lanes, ((shell("next step", "true"),),))) == 1
    assert {part.name: part.status for part in runner.parts} == {"fails": 3, "beside it": 0}


def test_contributing_names_the_budget_of_each_part_and_their_sum() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    parts = [part for lanes in STEPS for lane in lanes for part in lane]
    for name, seconds in [*((part.name, part.budget) for part in parts), ("whole run", budget())]:
        assert f"| {name} | {seconds:.0f} |" in text, name
    assert budget() <= 30 * 60
