"""`make fuzz`: every parser in turn until the time is up → build/fuzz.json.

Each turn is a few hundred inputs of another seed. The shortest input of each fault is kept in tests/fuzz/found.jsonl,
which the unit tests read, too. Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz import corpus
from tests.fuzz.limits import BYTES, SECONDS, FaultError
from tests.fuzz.parser import Parser
from tests.fuzz.table import PARSERS
from tests.paths import ROOT

RESULT: Final = ROOT / "build" / "fuzz.json"
_MOST_FAULTS: Final = 20
# a time or a size in a fault's text: it is the same fault
_NUMBERS: Final = re.compile(r"\d+\.\d+ s")


@dataclass(slots=True)
class Tried:
    """What came of one parser's inputs. `worst`: the most processor time of one of them, and `size` how long that one was."""

    parser: str
    examples: int = 0
    seconds: float = 0.0
    worst: float = 0.0
    size: int = 0
    faults: dict[str, Any] = field(default_factory=dict)

    def turn(self, parser: Parser, number: int) -> None:
        """Try one turn of inputs, of the seed `number`."""

        @seed(number)
        @settings(
            max_examples=parser.turn,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),
        )
        @given(parser.inputs)
        def each(value: Any) -> None:
            try:
                self._try(parser, value)
            except FaultError as fault:
                self.fault(value, fault)

        begin = time.thread_time()
        each()
        self.seconds += time.thread_time() - begin

    def fault(self, value: Any, fault: FaultError) -> None:
        """Keep the shortest input of each fault."""
        text = _NUMBERS.sub("N", str(fault).partition(": ")[0])
        if text not in self.faults and len(self.faults) >= _MOST_FAULTS:
            return
        if text not in self.faults:
            print(f"{self.parser}: {fault}\n    {repr(value)[:300]}", flush=True)
        if text not in self.faults or len(repr(value)) < len(repr(self.faults[text])):
            self.faults[text] = value

    def _try(self, parser: Parser, value: Any) -> None:
        self.examples += 1
        seconds = parser.check(value)
        if seconds > self.worst:
            self.worst, self.size = seconds, len(value) if isinstance(value, str | bytes) else len(repr(value))


def run(parsers: Sequence[Parser], minutes: float, first: int) -> list[Tried]:
    """What came of each parser. Each has its first turn, however long that takes: one that was not tried has no fault, either."""
    tried = {parser.name: Tried(parser.name) for parser in parsers}
    by_name = {parser.name: parser for parser in parsers}
    for name, value in corpus.kept():
        if name in by_name:
            try:
                by_name[name].check(value)
            except FaultError as fault:
                tried[name].fault(value, fault)
    end, number = time.monotonic() + minutes * 60, first
    while number == first or time.monotonic() < end:
        for parser in parsers:
            if number != first and time.monotonic() >= end:
                break
            tried[parser.name].turn(parser, number)
        number += 1
    return list(tried.values())


def _table(tried: Sequence[Tried]) -> str:
    rows = ["| parser | inputs | processor time | worst input | faults |", "|---|---|---|---|---|"]
    rows += [
        f"| {one.parser} | {one.examples:,} | {one.seconds:.0f} s | {one.worst * 1000:.1f} ms, {one.size:,} long | {len(one.faults)} |"
        for one in tried
    ]
    return "\n".join(rows)


def main() -> int:
    options = argparse.ArgumentParser(prog="make fuzz")
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    options.add_argument("--only", default="", help="parsers with this in their names")
    args = options.parse_args()
    begin = time.monotonic()
    tried = run([one for one in PARSERS if args.only in one.name], args.minutes, args.seed)
    result = {
        "minutes": round((time.monotonic() - begin) / 60, 1),
        "seed": args.seed,
        "python": platform.python_version(),
        "hypothesis": hypothesis.__version__,
        "inputs": sum(one.examples for one in tried),
        "limits": {"seconds": SECONDS, "bytes": BYTES},
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "faults": sum(len(one.faults) for one in tried),
        "parsers": [
            {**asdict(one), "faults": {text: repr(value)[:400] for text, value in one.faults.items()}} for one in tried
        ],
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for one in tried:
        for value in one.faults.values():
            corpus.keep(one.parser, value)
    print(_table(tried))
    print(
        f"{result['inputs']:,} inputs of {len(tried)} parsers in {result['minutes']} minutes, {result['faults']} faults, peak {result['peak_rss_mb']} MB"
    )
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
