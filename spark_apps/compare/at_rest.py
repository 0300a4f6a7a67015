"""Compare tables that the connector writes itself, without events: keys that differ are read again until they rest.

The source is read first (V), then its position is taken (P), the connector reads past P, and only then is the sink read
(S). So S holds everything that V shows, and perhaps more; the verdict is about S. Keys whose rows are equal in V and S
are done. The others changed between the two, or are wrong. They are read again in rounds: the source all the while until
after the sink. A key is

* equal if the sink's row is one that the source showed during the round: the sink held it after that round's V;
* wrong if the source showed one row throughout, and the sink another, in WRONG_ROUNDS rounds in a row;
* else open. A key that is still open after ROUNDS rounds changes faster than it can be read: INCONCLUSIVE.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from airflow_cdc.core.ports import Stage
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.verdict import Image, KeyVerdict, Rows, compare_images, leaf_caveat
from airflow_cdc.spark_apps.compare.judge import WRONG, count_leaves, drill_keys
from airflow_cdc.spark_apps.compare.scan import Outcome, Scanned, Subject, scan
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.ports import RowReader, SourceView

log = logging.getLogger("airflow_cdc.verify")

ROUNDS = 12
WRONG_ROUNDS = 3
# How many keys of a table are read again; beyond them a table is not proven.
MOST_KEYS = 10_000
# Between two looks at the source; and at most this part of the time is spent on looking.
LOOK_SECONDS = 0.1

# all rows under one key; one at most, unless the table is wrong
Copies = tuple[Image, ...]


@dataclass(frozen=True, slots=True)
class TableItself:
    """A table of the sink, where a Stage is asked for."""

    namespace: str
    table: str
    base_head: int = 0
    label: str = ""

    @classmethod
    def of(cls, stage: Stage) -> TableItself:
        """The target of a stage, as it was when the stage began."""
        return cls(stage.namespace, stage.table, stage.base_head)

    @property
    def identifier(self) -> tuple[str, str]:
        """Its place in the sink."""
        return self.namespace, self.table

    @property
    def target(self) -> str:
        """Its name in messages."""
        return f"{self.namespace}.{self.table}"


@dataclass(frozen=True, slots=True)
class Sides:
    """What the comparison reads.

    Attributes:
        watermark: every connection to the source proves that it reaches this one's server (INV 9).
        reach: takes the source's position, and returns it once the connector has read past it, and whoever writes the sink
            has written all that came of it.
        sink: opens a view of the table as it is now.
        as_compared: the source's view as the sink's table can be compared with it.
    """

    reader: RowReader
    watermark: Watermark
    reach: Callable[[], Watermark]
    sink: Callable[[Table], AbstractContextManager[SinkView]]
    as_compared: Callable[[Table, SourceView], SourceView] = lambda _table, view: view

    @contextmanager
    def view(self, table: Table) -> Iterator[SourceView]:
        """A new read view of a table."""
        with self.reader.view(table, at=self.watermark) as view:
            yield self.as_compared(table, view)


@dataclass(slots=True)
class Open:
    """The keys of one table that are not decided. `wrong`: key → in how many rounds in a row it was wrong."""

    outcome: Outcome
    keys: set[str] = field(default_factory=set)
    wrong: dict[str, int] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        return self.outcome.subject.table

    def decide(self, looks: Mapping[str, set[Copies]], sink: Rows) -> None:
        """Judge every open key by all rows that the source showed in a round, and the sink's row in it."""
        for key in sorted(self.keys):
            rows, verdict = copies(sink, key), judged(looks[key], copies(sink, key))
            self.wrong[key] = self.wrong.get(key, 0) + 1 if verdict in WRONG else 0
            if verdict is KeyVerdict.EQUAL or self.wrong[key] >= WRONG_ROUNDS:
                self.keys.discard(key)
                gap = 0 if verdict is KeyVerdict.EQUAL else len(next(iter(looks[key]))) - len(rows)
                self.outcome.tally.add(verdict, key, max(1, abs(gap)))

    def give_up(self) -> None:
        """Count what is still open as unsettled, and the source's rows by what the sink's version should have held."""
        for key in sorted(self.keys):
            self.outcome.tally.add(KeyVerdict.UNSETTLED, key)
        self.keys.clear()
        tally = self.outcome.tally
        self.outcome.source_rows = self.outcome.sink_rows + tally.missing - tally.ghosts


def copies(rows: Rows, key: str) -> Copies:
    """All rows under a key, in one order."""
    return tuple(sorted(rows.get(key, ()), key=repr))


def judged(looks: Collection[Copies], sink: Copies) -> KeyVerdict:
    """A key by the rows that the source showed during a round, and the sink's within it."""
    if sink in looks:
        return KeyVerdict.EQUAL
    if len(looks) != 1:
        return KeyVerdict.UNSETTLED
    (source,) = looks
    if len(source) == len(sink):
        return KeyVerdict.DIFFERENT
    if max(len(source), len(sink)) > 1:
        return KeyVerdict.GHOST if len(sink) > len(source) else KeyVerdict.MISSING
    return compare_images(source[0] if source else None, sink[0] if sink else None)


def compare_at_rest(sides: Sides, tables: Sequence[Table]) -> list[Outcome]:
    """Compare every row of the tables; one outcome per table."""
    sizes = sides.reader.sizes(tables)
    states = [_first_look(sides, table, sizes[table.full_name].rows) for table in tables]
    for number in range(1, ROUNDS + 1):
        left = [state for state in states if state.keys]
        if not left:
            break
        log.info("round %d: %s", number, ", ".join(f"{len(s.keys)} keys of {s.table.full_name}" for s in left))
        _round(sides, left)
    for state in states:
        state.give_up()
    return [state.outcome for state in states]


def _first_look(sides: Sides, table: Table, rows: int) -> Open:
    with sides.view(table) as view:
        position = sides.reach()
        with sides.sink(table) as sink:
            scanned = scan(sides.reader, sides.watermark, Subject(table, sink, None, {}, position, rows), view)
            return _suspects(scanned)


def _suspects(scanned: Scanned) -> Open:
    """The keys that differ."""
    state = Open(Outcome(scanned.subject))
    outcome = state.outcome
    drilled = drill_keys(scanned, scanned.source, scanned.sink)
    keys = sorted({*drilled.keys, *scanned.others})
    state.keys.update(keys[:MOST_KEYS])
    left = len(keys) - len(state.keys) + sum(drilled.beyond.values())
    if left:
        outcome.tally.count(KeyVerdict.UNSETTLED, left)
    if drilled.unexplained:
        outcome.add_caveats(leaf_caveat(drilled.unexplained))
    count_leaves(outcome, scanned, len(keys))
    return state


def _round(sides: Sides, states: Sequence[Open]) -> None:
    """Look at the source until after the sink was read, and judge the keys."""
    with _looking(sides, states) as looks:
        sides.reach()
        rows = [_sink_images(sides, state) for state in states]
    for state, sink, seen in zip(states, rows, looks, strict=True):
        state.decide(seen, sink)


def _sink_images(sides: Sides, state: Open) -> Rows:
    with sides.sink(state.table) as sink:
        return sink.images(state.table, state.keys)


@contextmanager
def _looking(sides: Sides, states: Sequence[Open]) -> Iterator[list[dict[str, set[Copies]]]]:
    """All rows that the source shows under the open keys: before the block, again and again meanwhile, and after it."""
    looks: list[dict[str, set[Copies]]] = [{key: set() for key in state.keys} for state in states]
    ended, failures = threading.Event(), list[Exception]()

    def look() -> None:
        for state, seen in zip(states, looks, strict=True):
            with sides.view(state.table) as view:
                rows_of = view.images(seen)
            for key, rows in seen.items():
                rows.add(copies(rows_of, key))

    def again() -> None:
        pause = LOOK_SECONDS
        try:
            while not ended.wait(pause):
                began = time.monotonic()
                look()
                pause = max(LOOK_SECONDS, time.monotonic() - began)
        except Exception as error:  # raised after the block
            failures.append(error)

    look()
    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]
    look()
