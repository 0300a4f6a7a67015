"""Recoveries under load on real servers: `python -m tests.load [--rates 500,2000] [--backlog 5000000]`.

Each rate: a purge, then a recovery while the source takes so many row changes a second, then applies, still under
load, until the sink is no further behind than one apply takes; then the writer ends, the rest is applied, and every row
is compared. The backlog: so many events lie in the topics unapplied when the recovery begins. Writes build/load.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from airflow_cdc.flows.capture import topic_names
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import mysql_position
from demo.world import NAMESPACE, changes_between, writer
from stack.process import wait_until
from stack.shop import connectors
from stack.shop.dataset import SCHEMA
from tests.e2e.conftest import again_and_again
from tests.faults.mysql import MySqlWorld, world
from tests.faults.runner import MATCH, Recovery, first_copy
from tests.faults.world import PIPELINE

FOLDER, RESULTS = Path("build/load"), Path("build/load.json")
CONSOLE = Console(width=140)
ROWS = 100_000
APPLIES = 4
SAMPLE_SECONDS = 5.0
Result = dict[str, Any]


def behind(made: MySqlWorld) -> dict[str, int]:
    """How far things are behind, now: transactions that the connector has not read, events that main does not hold."""
    run = made.run("look")
    executed = mysql_position(run.clients.source.position().position).gtids or GtidSet()
    worker = made.stack.connect
    assert worker is not None
    stored = GtidSet.parse(str(connectors.stored(worker, PIPELINE).get("gtids") or ""))
    topics = {topic: table for table, topic in topic_names(run, run.pipeline.source.tables).items()}
    states = run.clients.transport.topic_states(list(topics))
    events = 0
    for topic, state in states.items():
        stamp = made.lake.stamp(NAMESPACE, run.pipeline.sink_table(topics[topic]))
        held = stamp.next_offset if stamp else lambda _topic, _partition: 0
        events += sum(end - (held(topic, number) or 0) for number, (_, end) in state.partitions.items())
    return {"transactions_unread": (executed - stored).count, "events_unapplied": events}


def beat(made: MySqlWorld) -> None:
    """Let the connector commit an offset past its last transaction, also when no other follows."""
    worker = made.stack.connect
    assert worker is not None
    path = f"/connectors/{PIPELINE}/config"
    often = dict.fromkeys(("heartbeat.interval.ms", "connect.keep.alive.interval.ms"), "1000")
    worker.call("PUT", path, {**worker.call("GET", path), **often})


@contextmanager
def sampled(made: MySqlWorld) -> Iterator[list[Result]]:
    """Look how far things are behind, again and again beside the block."""
    results: list[Result] = []
    with again_and_again(lambda: results.append({"t": round(time.time(), 1), **behind(made)}), SAMPLE_SECONDS):
        yield results


def at_rate(made: MySqlWorld, rate: int) -> Result:
    """A recovery while the source takes `rate` changes a second."""
    made.make_gap()
    began = time.time()
    with sampled(made) as samples, writer(made.demo, "tests.load.writer", str(rate)) as counts:
        recovery = Recovery(made, f"rate-{rate}", [])
        stood = recovery.chain(nullcontext())
        recovered = time.time()
        applies = [] if stood else [apply(made, recovery) for _ in range(APPLIES)]
        ended = time.time()
        written = changes_between(counts, began, ended) / (ended - began)
    drained = time.time()
    verdict = stood or settled(made, recovery)
    return {
        "scenario": f"{rate} changes a second",
        "verdict": verdict,
        "changes_per_second": round(written),
        "recovery_seconds": round(recovered - began, 1),
        "applies": applies,
        "drained_seconds": round(time.time() - drained, 1),
        "samples": samples,
        "said": recovery.said,
    }


def apply(made: MySqlWorld, recovery: Recovery) -> Result:
    """One run of apply_changes: how far main was behind when it began and when it ended."""
    before, began = behind(made), time.time()
    recovery.alone("apply_changes")
    return {"before": before, "after": behind(made), "seconds": round(time.time() - began, 1)}


def settled(made: MySqlWorld, recovery: Recovery) -> str:
    """Everything applied; the verdict of the independent comparison."""
    wait_until(lambda: True if not behind(made)["transactions_unread"] else None, timeout=900, what="the connector")
    recovery.alone("apply_changes")
    return made.mismatch() or MATCH


def with_backlog(made: MySqlWorld, events: int) -> Result:
    """A recovery while the topics hold `events` events that nobody applied."""
    began = time.time()
    fill_backlog(made, events)
    filled = time.time()
    held = behind(made)
    made.make_gap()
    recovery = Recovery(made, "backlog", [])
    started = time.time()
    stood = recovery.chain(nullcontext())
    recovered = time.time()
    return {
        "scenario": f"a backlog of {held['events_unapplied']} events",
        "backlog_seconds": round(filled - began, 1),
        "recovery_seconds": round(recovered - started, 1),
        "after": behind(made),
        "verdict": stood or settled(made, recovery),
        "said": recovery.said,
    }


def fill_backlog(made: MySqlWorld, events: int) -> None:
    """Update all orders until the connector has sent so many events; nothing applies them."""
    with (
        closing(made.demo.mysql.connect(database=SCHEMA, autocommit=True)) as connection,
        connection.cursor() as cursor,
    ):
        changed = 0
        while changed < events:
            changed += cursor.execute("UPDATE orders SET amount = amount + 1")
    wait_until(
        lambda: True if behind(made)["events_unapplied"] >= events else None, timeout=3600, what="the connector to send"
    )


def main() -> int:
    """Run the scenarios; 0 if all ended in MATCH."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="500,2000,4000", help="row changes a second")
    parser.add_argument("--backlog", type=int, default=5_000_000, help="events; 0: without")
    asked = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    results: list[Result] = []
    with world(FOLDER.absolute(), ROWS) as made:
        first_copy(made)
        beat(made)
        for rate in (int(text) for text in asked.rates.split(",") if text):
            results.append(at_rate(made, rate))
            told(results)
        if asked.backlog:
            results.append(with_backlog(made, asked.backlog))
            told(results)
    return int(any(result["verdict"] != MATCH for result in results))


def told(results: list[Result]) -> None:
    """Keep what was found so far, and say the last of it."""
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    CONSOLE.print({key: value for key, value in results[-1].items() if key != "samples"})


if __name__ == "__main__":
    sys.exit(main())
