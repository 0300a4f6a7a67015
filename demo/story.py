"""The demo's story, scene by scene: a copied shop, a purge, a recovery, the proof, and the peer beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from demo import interference
from demo.show import Show, ended
from demo.sinks import Act
from demo.timing import span, taken
from demo.world import PIPELINE, World, changes_between, writer
from stack.airflow_client import AirflowClient
from stack.errors import StackError
from stack.process import wait_until
from stack.shop import connectors
from stack.shop.check import TableCheck
from stack.shop.gap import Gap

Tasks = dict[str, dict[str, Any]]

RUN_SECONDS = 1800.0
DRAIN_SECONDS = 300.0
LOOK_SECONDS = 2.0
SNAPSHOT_SECONDS = 900.0


def tell(world: World, airflow: AirflowClient, show: Show) -> bool:
    """Run every scene but the first; returns whether the recovery is MATCH and the independent check agrees."""
    act = partial(run, airflow, show)
    world.sink.copy(world, act, show)
    with writer(world) as counts:
        show.line("a writer changes rows from here on")
        world.sink.apply(act, "live copy: changes since then are applied")
        gap = break_it(world, show)
        report, tasks = recover(world, airflow, show)
        show.title(f"the peer on the same fault: {world.shop.method}")
        show.line("Connect runs with the options that Kafka ships; the peer has the settings for a fast snapshot")
        healed = heal_peer(world)
        show.line("the peer's re-snapshot is complete", healed)
    drained, left = drain(world, act)
    report |= {
        "peer": {
            "method": world.shop.method,
            "seconds": healed,
            "ghosts": sum(left.values()),
            "ghosts_by_table": left,
        },
        "writer": writer_report(tasks, counts),
        "gap": asdict(gap),
        "independent_check": [asdict(check) | {"equal": check.equal} for check in drained],
    }
    path = world.folder / "report.json"
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False, default=str) + "\n")
    return conclude(show, report, drained, path, keeps_others_out=world.shop.keeps_others_out)


def fill_and_connect(world: World, show: Show, rows: int) -> None:
    """Scene 1: the shop, and two connectors on it."""
    show.title(f"a shop of {rows:,} rows")
    began = time.monotonic()
    counts = world.shop.fill(rows)
    show.line(", ".join(f"{table} {count:,}" for table, count in counts.items()), time.monotonic() - began)
    began = time.monotonic()
    for name, made in settings(world).items():
        connectors.create(world.worker, name, made)
    _wait_snapshotted(world, "shop")
    show.line("connector shop streams, connector peer takes its snapshot", time.monotonic() - began)


def settings(world: World) -> dict[str, dict[str, str]]:
    """Those of both connectors: of the source's make, and for the sink."""
    of_make = world.shop.connectors(world.bootstrap)
    return {name: {**own, **world.sink.connector(name)} for name, own in of_make.items()}


def heal_peer(world: World) -> float:
    """Let the peer get over the fault as Debezium does, until its copy has it; the seconds it took."""
    began = time.monotonic()
    world.shop.heal(world.worker, settings(world)["peer"])
    world.sink.wait_healed(world)
    return round(time.monotonic() - began, 1)


def _wait_snapshotted(world: World, name: str) -> None:
    wait_until(lambda: _snapshotted(world, name), timeout=SNAPSHOT_SECONDS, what=f"the first snapshot of {name}")


def _snapshotted(world: World, name: str) -> bool | None:
    if reason := connectors.failed(world.worker, name):
        raise StackError(f"connector {name} failed in its first snapshot: {reason}")
    return world.shop.streams(name, connectors.stored(world.worker, name)) or None


def break_it(world: World, show: Show) -> Gap:
    """Scene 2: the connectors are down while rows go, tables change and the log is taken away."""
    show.title("the fault")
    worker = world.worker
    _wait_snapshotted(world, "peer")
    connectors.stop(worker, "shop", "peer")
    gap = world.shop.break_log(alter=world.sink.alters)
    show.line(
        f"connectors down; deleted {sum(gap.deletes.values()):,} rows, changed {sum(gap.changes.values()):,},{' two ALTERs,' if world.sink.alters else ''} {world.shop.lost(gap)}"
    )
    show.line("Debezium, started again, says:")
    show.quote(connectors.failure(worker, "shop"))
    connectors.failure(worker, "peer")
    return gap


def recover(world: World, airflow: AirflowClient, show: Show) -> tuple[dict[str, Any], Tasks]:
    """Scene 3: cdc_recovery, followed step by step; its report and its task instances.

    What others try against the source while Spark reads it is the report's `tried_while_held`: nothing where it would
    go through.
    """
    tried: dict[str, str] = {}

    def interfere_once(tasks: Tasks) -> None:
        if tasks.get("recover", {}).get("state") == "running" and not tried:
            tried.update(world.shop.interfere())

    run_id, tasks = run(airflow, show, "cdc_recovery", "the recovery", interfere_once)
    for what, outcome in tried.items():
        show.line(f"{what}, tried meanwhile by someone else: {outcome}")
    reports = [json.loads(path.read_text()) for path in (world.folder / "reports" / PIPELINE).glob("*/report.json")]
    mine = [report for report in reports if report["run_id"] == run_id]
    if not mine:
        raise StackError(f"the run {run_id} left no report below {world.folder / 'reports'}")
    whole = asdict(taken(airflow.run("cdc_recovery", run_id), list(tasks.values())))
    return mine[0] | {"tried_while_held": tried, "run": whole}, tasks


def run(
    airflow: AirflowClient, show: Show, dag: str, title: str, also: Callable[[Tasks], None] | None = None
) -> tuple[str, Tasks]:
    """Trigger a DAG, print its steps as they end behind a progress bar, and require success.

    `also` is shown the task instances at every look.
    """
    show.title(title)
    airflow.wait_dag(dag)
    run_id = airflow.trigger(dag, {"pipeline": PIPELINE} if dag == "cdc_recovery" else {})
    seen: dict[str, Any] = {}
    with show.bar() as bar:
        progress = bar.add_task(dag, total=None)

        def watch(tasks: Tasks) -> None:
            fresh = [task for name, task in tasks.items() if ended(task) and name not in seen]
            for task in sorted(fresh, key=lambda one: str(one.get("end_date"))):
                show.step(task)
                seen[task["task_id"]] = task
            bar.update(progress, total=len(tasks), completed=len(seen))
            if also:
                also(tasks)

        state = airflow.wait_run(dag, run_id, timeout=RUN_SECONDS, watch=watch, interval=LOOK_SECONDS)
    tasks = airflow.tasks(dag, run_id)
    if state != "success":
        failed = [name for name, task in tasks.items() if task["state"] == "failed"]
        said = airflow.log(dag, run_id, failed[0])[-3000:] if failed else ""
        raise StackError(f"{dag} failed in {', '.join(failed)}:\n{said}")
    return run_id, tasks


def drain(world: World, act: Act) -> tuple[list[TableCheck], dict[str, int]]:
    """Scene 4: the writer has stopped; apply what is left, then compare every row by other means.

    Returns the comparison, and the ghosts that the peer left per table, counted meanwhile.
    """
    end, worker = world.shop.end(), world.worker

    def covered() -> bool | None:
        offsets = {name: connectors.stored(worker, name) for name in ("shop", "peer")}
        return all(world.shop.has_read(name, offset, end) for name, offset in offsets.items()) or None

    wait_until(covered, timeout=DRAIN_SECONDS, what="both connectors to read all that the writer wrote")
    with ThreadPoolExecutor(1) as beside:
        left = beside.submit(world.sink.ghosts, world)
        world.sink.apply(act, "the writer has stopped: the rest is applied")
        return world.sink.check(world), left.result()


def writer_report(tasks: Tasks, counts: Path) -> dict[str, Any]:
    """Row changes the writer made during the recovery, and during each of its tasks, by its own count."""
    spans = {name: span(task) for name, task in tasks.items() if task.get("start_date") and task.get("end_date")}
    begun, over = min(start for start, _ in spans.values()), max(stop for _, stop in spans.values())
    total = changes_between(counts, begun, over)
    return {
        "changes": total,
        "per_second": round(total / max(1.0, over - begun), 1),
        "steps": {name: changes_between(counts, *span) for name, span in spans.items()},
    }


def conclude(
    show: Show, report: Mapping[str, Any], checks: list[TableCheck], path: Path, *, keeps_others_out: bool
) -> bool:
    """Scene 5: the tables."""
    show.title("the result")
    names = ("source_rows", "sink_rows", "missing", "ghosts", "different", "verdict")
    show.tables(
        f"recovered by {report['strategy']} from {report['problem']}: {report['verdict']}",
        ("table", *(name.replace("_", " ") for name in names)),
        [(table["table"], *(table[name] for name in names)) for table in report["tables"]],
    )
    show.tables(
        "independent check, writer stopped",
        ("table", "source rows", "sink rows", "missing", "ghosts", "not compared"),
        [
            (c.table, c.source_rows, c.sink_rows, c.missing, c.ghosts, ", ".join(c.columns_not_compared) or "-")
            for c in checks
        ],
    )
    seconds = report["run"]["seconds"]
    show.tables(
        "the same fault, two ways",
        ("way", "seconds", "ghost rows left"),
        [
            ("cdc_recovery (ends proven)", f"{seconds:.1f}", sum(table["ghosts"] for table in report["tables"])),
            (report["peer"]["method"], report["peer"]["seconds"], report["peer"]["ghosts"]),
        ],
    )
    for result in checks:
        for example in result.examples:
            show.problem(f"{result.table}: {example}")
    show.line(f"written to {path}")
    proven = report["verdict"] == "MATCH" and all(result.equal for result in checks)
    kept_out = not keeps_others_out or interference.held(report["tried_while_held"])
    return proven and report["peer"]["ghosts"] > 0 and kept_out
