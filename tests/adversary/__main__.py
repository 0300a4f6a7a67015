"""Seeds against a real pipeline: `python -m tests.adversary --seed 1 --seeds 20 --minutes 30 [--without ddl,json]`.

Writes build/adversary/<seed>.jsonl (every statement and what came of it) and build/adversary/summary.json. Ends with 1
if a seed failed.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from airflow_cdc.spark_apps.driver.session import INTERPRETED
from tests.adversary.known import KNOWN
from tests.adversary.result import Result
from tests.adversary.schema import SWITCHES
from tests.adversary.story import run_crowd, run_seed
from tests.adversary.world import Servers, servers

FOLDER = Path("build/adversary")
CONSOLE = Console(width=160)


def main() -> int:
    """Run seeds until there are enough or the time is over; 0 if none failed."""
    asked = arguments(sys.argv[1:])
    without = frozenset(filter(None, asked.without.split(","))) | (frozenset(KNOWN) if asked.known else frozenset())
    if unknown := without - SWITCHES.keys():
        raise SystemExit(f"--without {', '.join(sorted(unknown))}: known are {', '.join(SWITCHES)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=FOLDER / "product.log", level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    results: list[Result] = []
    for talker in ("httpx", "kafka", "py4j"):  # a line for each request: a tenth of the driver's time
        logging.getLogger(talker).setLevel(logging.WARNING)
    # every table of a crowd has columns of its own, so that code would be compiled for each to run a few times
    spark = INTERPRETED if asked.together > 1 else {}
    with servers(FOLDER.absolute() / f"world-{int(time.time())}", asked.stack, spark, formats=True) as running:
        until = time.monotonic() + asked.minutes * 60
        last = asked.seed + asked.seeds
        for seed in range(asked.seed, last, asked.together):
            if time.monotonic() > until:
                break
            crowd = range(seed, min(seed + asked.together, last))
            results.append(run(running, crowd, FOLDER, without=without, rounds=asked.rounds, deadline=until))
            say(results[-1])
            summary = {**summed(results), "without": sorted(without)}
            (FOLDER / "summary.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    CONSOLE.print(table(results))
    return int(any(result.failed for result in results))


def run(
    running: Servers, seeds: Sequence[int], folder: Path, *, without: frozenset[str], rounds: int, deadline: float
) -> Result:
    """One seed alone, or several that share a pipeline."""
    if len(seeds) == 1:
        return run_seed(running, seeds[0], folder, without=without, rounds=rounds, deadline=deadline)
    return run_crowd(running, seeds, folder, without=without, rounds=rounds, deadline=deadline)


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other")
    parser.add_argument("--minutes", type=float, default=30.0, help="begin no further round after so long")
    parser.add_argument("--together", type=int, default=1, help="how many seeds share a pipeline, and its costs")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each seed")
    parser.add_argument("--without", default="", help=f"leave out: {', '.join(SWITCHES)}")
    parser.add_argument("--known", action="store_true", help="leave out what tests/adversary/known.py lists")
    parser.add_argument("--stack", default="", help="the folder of a stack that runs already")
    return parser.parse_args(argv)


def say(result: Result) -> None:
    """A seed's line, and its findings."""
    state = "FAILED" if result.failed else "ok"
    seeds = sorted(result.by_seed)
    named = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    CONSOLE.print(
        f"{named} ({result.form}): {state}, {result.operations} operations, {result.compared} comparisons,"
        f" {sum(result.refusals.values())} refusals, {result.seconds} s",
        markup=False,
    )
    for name, why in result.left_out.items():
        CONSOLE.print(f"  refused by name: {name!r}: {why[:200]}", markup=False)
    for one in result.findings:
        where = f" {one.columns}" if one.columns else ""
        CONSOLE.print(
            f"  seed {one.seed}: {one.kind} after {one.step} in {one.table!r}: {one.what[:400]}{where}", markup=False
        )


def summed(results: list[Result]) -> dict[str, Any]:
    """All seeds together."""
    refusals: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    for result in results:
        refusals.update(result.refusals)
        steps.update(result.steps)
    return {
        "seeds": sum(len(result.by_seed) for result in results),
        "pipelines": len(results),
        "failed_seeds": sorted({finding.seed for result in results for finding in result.findings}),
        "operations": sum(result.operations for result in results),
        "comparisons": sum(result.compared for result in results),
        "steps": dict(steps),
        "left_out": sum(len(result.left_out) for result in results),
        "refusals": dict(refusals.most_common()),
        "findings": dict(Counter(finding.kind for result in results for finding in result.findings)),
        "seconds": round(sum(result.seconds for result in results), 1),
        "results": [result.to_json() for result in results],
    }


def table(results: list[Result]) -> Table:
    """The summary as a person reads it."""
    made, total = Table("what", "count", title="the adversary suite"), summed(results)
    for name in ("seeds", "pipelines", "operations", "comparisons", "left_out", "seconds"):
        made.add_row(name, str(total[name]))
    for group in ("steps", "findings", "refusals"):
        for name, count in total[group].items():
            made.add_row(f"{group}: {name}", str(count))
    made.add_row("failed seeds", ", ".join(map(str, total["failed_seeds"])) or "none")
    return made


if __name__ == "__main__":
    sys.exit(main())
