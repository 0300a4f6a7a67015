"""One recovery under faults: its steps as processes, the faults at their moments, reruns as the errors say, the check."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_cdc.core.errors import CdcError
from airflow_cdc.decisions.diagnosis.strategy import STRATEGIES
from stack.errors import StackError
from stack.process import wait_until
from tests.faults.cell import Cell, Seen, When, Written
from tests.faults.strikes import DISK_FULL, TASK_KILLED
from tests.faults.world import FaultWorld, Messages, Reader

# the hold runs beside them
CHAIN = ("diagnose", *(step for step in STRATEGIES["full_snapshot"].steps if step != "hold_binlog"))
WRITER_OFF_AFTER = "resume_connector"
STEP_SECONDS = 1_200.0
OLD_AND_NEW = 2
RERUNS = 8
LOOK_SECONDS = 0.01
DRIVER_ENDS_S = 10.0  # see airflow_cdc/spark_apps/driver/task.py
FILE_BYTES = 4_096  # more than Spark needs to start, less than a file of rows
MATCH = "MATCH"
MISSED = "MISSED"
KILLED = "killed"
ATTEMPTS = 3  # a moment of some milliseconds may pass unseen


@dataclass
class Recovery:
    """A recovery of the world's pipeline while `cells` strike, each once."""

    world: FaultWorld
    run_id: str
    cells: list[Cell]
    struck: dict[Cell, float] = field(default_factory=dict)
    seconds: dict[Cell, float] = field(default_factory=dict)
    ended: dict[Cell, float] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    reader: Reader = field(init=False)
    messages: Messages = field(default_factory=Messages)
    late: bool = False
    _step: str = ""
    _process: subprocess.Popen[bytes] | None = None
    _mending: list[threading.Thread] = field(default_factory=list)
    _beside: list[threading.Thread] = field(default_factory=list)
    _holds_open: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reader = self.world.reader()

    # --- what faults use ---------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The open recovery, or {}."""
        return dict(self.world.run(self.run_id).clients.control.state()["recovery"] or {})

    def kill_step(self) -> None:
        """SIGKILL of the running step's process, and of it alone."""
        assert self._process is not None
        if self._process.poll() is not None:
            self.late = True
        self._process.kill()

    def driver_pid(self) -> int:
        """The pid of the running step's Spark driver."""
        return int(self._file(self._step, "pid").read_text())

    def mend(self, act: Callable[[], Any]) -> None:
        """Let `act` put things right beside the recovery; a rerun waits for it."""
        thread = threading.Thread(target=act)
        thread.start()
        self._mending.append(thread)

    def beside(self, act: Callable[[], Any]) -> None:
        """Do `act` beside the recovery, which is not waited for before the end: it may wait for the recovery itself.

        An error in it is one of the cell, which would not have struck.
        """

        def doing() -> None:
            try:
                act()
            except Exception as error:
                self.said.append(f"WRONG: what came beside the recovery failed: {error!r}")

        thread = threading.Thread(target=doing)
        thread.start()
        self._beside.append(thread)

    def step_ended(self) -> None:
        """Return when the running step has ended."""
        assert self._process is not None
        self._process.wait()

    def intrude(self) -> None:
        """Another run tries to take the pipeline: its refusal is kept, its success is an error."""
        other = f"{self.run_id}-other"
        path = self._settings(other)
        for step in ("diagnose", "open_recovery"):
            if _run_to_end(step, path):
                answer = json.loads(path.with_suffix(f".{step}.json").read_text())
                self.said.append(f"the second recovery: {answer['error']['what']}")
                return
        self.said.append("WRONG: a second recovery was let in")

    # --- the run -----------------------------------------------------------------------------------------------------

    def go(self) -> str:
        """Run to the end; the verdict of the independent check, or what stood in the way."""
        with self.reader.at_work():
            verdict = self.chain(self.world.writing())
        if not verdict and self._beside:
            self._settle()
        return verdict or self._judged()

    def chain(self, writing: AbstractContextManager[Any]) -> str:
        """Run all steps, `writing` until the connector is resumed; "" or what stood in the way."""
        with ExitStack() as busy:
            busy.enter_context(writing)
            verdict = self._steps(busy)
        for process in self._holds_open:
            if verdict:
                process.kill()  # it waits for a step that does not come
            process.wait(STEP_SECONDS)
        return verdict

    def _settle(self) -> None:
        """What came after the tables were compared is applied, as the schedule does, before the independent check."""
        for thread in self._beside:
            thread.join(STEP_SECONDS)
            if thread.is_alive():
                self.said.append(f"WRONG: what came beside the recovery goes on after {STEP_SECONDS:.0f} s")
        try:
            with self.world.beating():
                self.world.settle()
                self.alone("apply_changes")
        except StackError as error:
            self.said.append(f"WRONG: the apply after the recovery: {error}"[:400])

    def alone(self, step: str) -> dict[str, Any]:
        """Run one step outside the chain; its facts. Raises StackError when it failed."""
        if self._run(step) is not None:
            raise StackError(self.said[-1])
        return dict(self._answer(step)["facts"])

    def _steps(self, writing: ExitStack) -> str:
        at, reruns = 0, 0
        while at < len(CHAIN):
            step = CHAIN[at]
            again = self._run(step)
            if again is None:
                self._done(step)
                if step == WRITER_OFF_AFTER:
                    writing.close()
                at = len(CHAIN) if self._nothing_to_do(step) else at + 1
                continue
            reruns += 1
            if reruns > RERUNS + len(self.cells):
                return f"STUCK in {step}: {self.said[-1]}; told to clear {again}"
            self._wait_mended()
            at = CHAIN.index(again)
        return ""

    def _done(self, step: str) -> None:
        """How long each fault inside the step held it up, from the strike to its end."""
        for cell, struck in self.struck.items():
            if cell.step == step:
                self.seconds.setdefault(cell, round(time.monotonic() - struck, 1))

    def _nothing_to_do(self, step: str) -> bool:
        """Whether the diagnosis found the pipeline healthy: the DAG skips the rest."""
        return step == CHAIN[0] and self._answer(step)["facts"]["plan"]["strategy"] == "none"

    def _answer(self, step: str) -> dict[str, Any]:
        return dict(json.loads(self._file(step, "json").read_text()))

    def _run(self, step: str) -> str | None:
        """Run one step with its next cell armed; None when it is done, else the step to go on from."""
        cell = next((cell for cell in self.cells if cell.step == step and cell not in self.struck), None)
        path = self._settings(self.run_id, **self._prepared(cell))
        with ExitStack() as beside:
            answer = path.with_suffix(f".{step}.json")
            answer.unlink(missing_ok=True)
            if step == "fence_and_watermark":
                self._hold(path)
            self._step = step
            self._process = subprocess.Popen(_argv(step, path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if cell:
                beside.enter_context(self._armed(cell))
            try:
                self._process.wait(STEP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                self.said.append(f"{step}: took longer than {STEP_SECONDS:.0f} s")
                return step
        again = self._next(step, answer)
        self._ended(step, failed=again is not None)
        return again

    def _ended(self, step: str, *, failed: bool) -> None:
        """How long after its strike the step ended, and whether its driver goes on although it said that it failed."""
        for cell in (cell for cell in self.struck if cell.step == step and cell not in self.ended):
            self.ended[cell] = round(time.monotonic() - self.struck[cell], 1)
        if failed and not self.said[-1].endswith(KILLED) and _goes_on(self.world.folder):
            self.said.append(f"WRONG: {step} failed, and its driver goes on")

    def _prepared(self, cell: Cell | None) -> dict[str, Any]:
        """What a step is told for its cell's sake before it starts."""
        if cell and cell.fault == DISK_FULL:
            return {"file_bytes": FILE_BYTES}
        if cell and isinstance(cell.how, Written):
            marker = self._marker(cell)
            marker.unlink(missing_ok=True)
            return {"pause": {"step": cell.step, "field": cell.how.field, "marker": str(marker)}}
        return {}

    def _marker(self, cell: Cell) -> Path:
        """The file that a step makes when it has stopped itself at the cell's moment."""
        return self._file(cell.step, "paused")

    def _next(self, step: str, answer: Path) -> str | None:
        told = json.loads(answer.read_text()) if answer.exists() else None
        if told is None:
            self.said.append(f"{step}: {KILLED}")
            return step
        if "facts" in told:
            return None
        error = told["error"]
        self.said.append(f"{step}: {error['error']}: {error['what']}"[:400])
        return _told_to_clear(str(error.get("todo", "")), step)

    def _hold(self, path: Path) -> None:
        """The hold runs beside the chain until the connector is resumed, in a process of its own."""
        self._holds_open.append(
            subprocess.Popen(_argv("hold_binlog", path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    @contextmanager
    def _armed(self, cell: Cell) -> Iterator[None]:
        """Strike when the cell's moment comes, as long as the block lasts."""
        over = threading.Event()

        def strike() -> None:
            if cell not in self.struck:
                self.struck[cell] = time.monotonic()
                try:
                    cell.strike(self)
                except BaseException:
                    del self.struck[cell]  # missed
                    raise
                self._go_on()

        def look() -> None:
            while not over.wait(LOOK_SECONDS):
                if self._holds(cell):
                    strike()
                    return

        if isinstance(cell.how, Seen):
            proxy = getattr(self.world, cell.how.system)
            proxy.watch(cell.how.text, strike)
            yield
            proxy.forget()
            return
        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _holds(self, cell: Cell) -> bool:
        if isinstance(cell.how, Written):
            return self._marker(cell).exists()
        assert isinstance(cell.how, When)
        try:
            return cell.how.holds(self)
        except CdcError:  # a stage that is made or dropped at this moment
            return False

    def _go_on(self) -> None:
        """A step that stopped itself goes on, if it still lives."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)

    def _wait_mended(self) -> None:
        """Rerun as a person would: when the servers are up again."""
        while self._mending:
            self._mending.pop().join()
        wait_until(lambda: all(proxy.whole for proxy in self.world.proxies) or None, timeout=120, what="the cut")
        self.world.stack.wait_healthy(180)

    def _judged(self) -> str:
        wrong = [line for line in self.said if line.startswith("WRONG")]
        missed = [cell for cell in self.cells if cell not in self.struck or not self._hurt(cell)]
        if missed or self.late:
            return f"{MISSED}: {', '.join(f'{cell.step}: {cell.moment}' for cell in missed) or 'the step had ended'}"
        return self.world.mismatch() or self.world.left_behind() or self._lost() or next(iter(wrong), MATCH)

    def _lost(self) -> str:
        """Changes since the connector was resumed that never came; "" if there are none."""
        if self._file("reset_offset", "json").exists():
            self.messages = self.world.messages(self._answer("reset_offset")["facts"]["offset_after"] or {})
        return f"LOST: {self.messages.lost} of {self.messages.made} changes" if self.messages.lost else ""

    def _hurt(self, cell: Cell) -> bool:
        """A full disk that no step complained of was none."""
        return cell.fault != DISK_FULL or any(line.startswith(f"{cell.step}: ") for line in self.said)

    # --- files -------------------------------------------------------------------------------------------------------

    def _file(self, step: str, suffix: str) -> Path:
        return self.world.folder / "steps" / f"{self.run_id}.{step}.{suffix}"

    def _settings(self, run_id: str, **more: Any) -> Path:
        """The file that a step's process reads; it holds credentials, in a folder of the tests' own."""
        folder = self.world.folder / "steps"
        folder.mkdir(exist_ok=True)
        path = folder / f"{run_id}.json"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            json.dump(self.world.settings(run_id, **more), out)
        return path


def _goes_on(folder: Path) -> bool:
    """Whether a driver of a step goes on, for longer than it takes it to see that who started it was killed."""

    def ended() -> bool | None:
        done = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        return not any(str(folder / "steps") in line and "spark_main" in line for line in lines) or None

    try:
        wait_until(ended, timeout=DRIVER_ENDS_S, what="the driver to end")
    except StackError:
        return True
    return False


def _run_to_end(step: str, path: Path) -> int:
    return subprocess.call(_argv(step, path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _argv(step: str, path: Path) -> list[str]:
    return [sys.executable, "-m", "tests.faults.steps", step, str(path)]


def _told_to_clear(todo: str, step: str) -> str:
    """The step that an error tells to clear, or the failed one."""
    named = [name for name in re.findall(r"task ([a-z_]+)", todo) if name in CHAIN]
    if "Trigger" in todo and not named:
        return CHAIN[0]
    return named[0] if named else step


def first_copy(world: FaultWorld) -> None:
    """Fill the empty sink by a recovery without faults; everything after it starts from equal sides."""
    verdict = Recovery(world, "first-copy", []).go()
    if verdict != MATCH:
        raise StackError(f"the first copy, without any fault, ended in {verdict}")


def strike(world: FaultWorld, cells: Sequence[Cell], name: str) -> list[dict[str, Any]]:
    """Make a gap, recover under the cells, check; one result per cell. A moment that passed unseen is tried again."""
    for attempt in range(1, ATTEMPTS + 1):
        results = _strike_once(world, cells, f"{name}-{attempt}")
        if not any(result["verdict"].startswith(MISSED) for result in results):
            break
        print(f"{name}, attempt {attempt}: {results[0]['verdict']}", flush=True)
    return results


def _strike_once(world: FaultWorld, cells: Sequence[Cell], run_id: str) -> list[dict[str, Any]]:
    world.make_gap()
    recovery = Recovery(world, run_id, list(cells))
    verdict = recovery.go()
    states = recovery.reader.most
    if verdict == MATCH and states > OLD_AND_NEW:
        verdict = f"WRONG: main showed {states} states"
    result = {
        "verdict": verdict,
        "main_states_seen": states,
        "said": recovery.said,
        "messages": recovery.messages._asdict(),
    }
    return [
        {
            "step": c.step,
            "moment": c.moment,
            "fault": c.fault,
            "seconds": recovery.seconds.get(c),
            "ended": recovery.ended.get(c),
            **result,
        }
        for c in cells
    ]


def rounds(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells that one recovery can take: at most one in each step, but for kills of the task, of which each is a run."""
    kills = [cell for cell in cells if cell.fault == TASK_KILLED]
    made: list[list[Cell]] = []
    for cell in (cell for cell in cells if cell.fault != TASK_KILLED):
        free = next((one for one in made if cell.step not in {other.step for other in one}), None)
        if free is None:
            made.append([cell])
        else:
            free.append(cell)
    return [*([kills] if kills else []), *made]
