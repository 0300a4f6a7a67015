"""One seed from its first table to its verdict: rounds of statements and steps, and a check after each.

The rule: what the product calls applied, MATCH or HEALTHY must be equal at a quiet moment. It may refuse, by name, and
then what the refusal asks of a person is done. A crash, a refusal that names nothing, a recovery that does not end, and a
difference that it did not name are findings. What only a comparison can see (limits.py) its own repair must mend.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from airflow_cdc.core.errors import CdcError
from tests.adversary import limits
from tests.adversary.crowd import Crowd
from tests.adversary.generator import Generator, Op, Round, Step
from tests.adversary.oracle import Comparison, compare, sink_name
from tests.adversary.result import Finding, Result, Share
from tests.adversary.schema import quote, with_column, without_column, without_default
from tests.adversary.words import fault_of, kind_of, mentions, told_of
from tests.adversary.world import BEHIND, Pipe, Servers, execute, hot

MATCH = "MATCH"
EQUAL = "equal"
TRIES = 4  # a batch that ends inside repeats is published by a later apply
FIRST_COPIES = 20
PLAN = "the plan is refused"
AGAIN = "Clear the task stop_connector and all after it"
AS_DEFAULT = "arrives as the column's default"


@dataclass(slots=True)
class Story:
    """A seed at work."""

    generator: Generator | Crowd
    pipe: Pipe
    log: IO[str]
    result: Result
    refused: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)  # tables in which only a comparison can see what differs
    unmended: set[str] = field(default_factory=set)  # of these, what the product's repair saw and could not mend
    damaged: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    since: dict[str, list[list[str]]] = field(default_factory=dict)
    tamper: bool = False  # change the sink unseen after the first copy: the check must find it
    last_error: str = ""
    unfinished: bool = False  # a recovery did not end while hot rows never rested

    def go(self, rounds: int, deadline: float) -> None:
        """Fill, copy for the first time, then the rounds, until the deadline (time.monotonic)."""
        for op in self.generator.fill():
            self.do(op)
        self.pipe.follow()
        with self.heat(compared=True):
            if not self.first_copy():
                return
        if self.tamper:
            self.damage(max(self.generator.tables.values(), key=lambda table: table.rows).name)
        self.check("first copy")
        for number, one in enumerate(self.generator.rounds(rounds), 1):
            if time.monotonic() > deadline:
                break
            if not self.round(number, one):
                return
        self.last_word()

    # --- statements --------------------------------------------------------------------------------------------------

    def do(self, op: Op) -> None:
        """Run one statement list in a session of its own, and write down what came of it."""
        with closing(self.pipe.connect()) as connection:
            refused = execute(connection, op)
        if not refused:
            self.generator.settle(op)
            self.keep_in_mind(op)
        self.result.operations += 1
        self.share(op.table).operations += 1
        self.since.setdefault(op.table, []).append([*op.statements, *([f"-- {refused}"] if refused else [])])
        self.note({"op": op.kind, "table": op.table, "statements": op.statements, "refused": refused})

    def share(self, table: str) -> Share:
        """The share of the table's seed in the result."""
        return self.result.by_seed.setdefault(self.generator.seed_of(table), Share())

    def keep_in_mind(self, op: Op) -> None:
        """Note why the table may differ unseen from now on, if it may."""
        if why := limits.unseen(op, self.generator.modes):
            self.unseen.setdefault(op.table, why)

    def do_all(self, operations: Sequence[Op]) -> None:
        """Run them one after the other."""
        for op in operations:
            self.do(op)

    def note(self, line: dict[str, Any]) -> None:
        """A line of the seed's own file."""
        self.log.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        self.log.flush()

    @contextmanager
    def heat(self, *, compared: bool) -> Iterator[None]:
        """Keep the hot tables' rows busy; not while tables are compared whose changes have no place in the log, as the docs ask."""
        rest = compared and not self.pipe.form.is_placed
        tables = [] if rest else [t for t in self.generator.tables.values() if t.hot]
        beats = [f"UPDATE {quote(t.name)} SET ticks = ticks + 1" for t in tables]
        with hot(self.pipe, beats) if beats else nullcontext():
            yield

    # --- steps -------------------------------------------------------------------------------------------------------

    def first_copy(self) -> bool:
        """The first recovery; what is refused by name is done away with, as the refusal asks a person to."""
        tried = list[str]()
        for _ in range(FIRST_COPIES * len(self.generator.seeds)):
            error = self.attempt("first copy", self.pipe.recover)
            if error is None:
                return True
            if why := limits.stop(error):
                return self.read_past("first copy", f"{why}: {error}")
            if AGAIN in error and AGAIN not in tried:
                tried.append(AGAIN)  # the same run again, as the error asks
            elif not self.gave_way(error):
                break
        self.stuck("first copy", self.last_error)
        return False

    def stuck(self, step: str, why: str) -> None:
        """A finding, unless it is what the docs say stops a connector for good."""
        if not limits.stop(why):
            self.find("stuck", step, self.named(why), why)

    def gave_way(self, error: str) -> bool:
        """Drop the columns that a plan refuses, or leave out the tables that are refused. False: nothing is named.

        All of them at once: every new declaration copies each table that is left.
        """
        if self.drop_named(error):
            return True
        if not (culprits := self.left_out(error)):
            return False
        self.pipe.renewed(culprits)
        self.pipe.resume()
        return True

    def left_out(self, error: str) -> list[str]:
        """Leave out the tables that a plan refuses, as a person would who has the others go on; [] if these are all, or none."""
        refused = told_of(error)
        culprits = [t for t in self.pipe.tables if mentions(refused, f"{self.pipe.database}.{t}")]
        if not culprits or len(culprits) == len(self.pipe.tables):
            return []
        self.pipe.tables = [t for t in self.pipe.tables if t not in culprits]
        self.result.left_out |= dict.fromkeys(culprits, refused[:300])
        self.note({"left out": culprits, "why": error})
        return culprits

    def drop_named(self, error: str) -> bool:
        """Drop every column that an error names; False if it names none."""
        dropped, error = False, told_of(error)
        while drop := self.dropped(error):
            self.do(drop)
            dropped = True
            if drop.after is not None and self.generator.tables[drop.table] is not drop.after:
                break  # the server did not take it
        return dropped

    def dropped(self, error: str) -> Op | None:
        """The statement that drops a column that an error names; None if none is named, or it is in the key."""
        for table in (self.generator.tables[name] for name in self.pipe.tables):
            for column in (c for c in table.stored if c.name not in (*table.key, "n", "ticks")):
                full = f"{self.pipe.database}.{table.name}"
                if mentions(error, f"column {column.name} of {full}"):
                    sql = f"ALTER TABLE {quote(table.name)} DROP COLUMN {quote(column.name)}"
                    return Op("give way", table.name, (sql,), without_column(table, column))
                if AS_DEFAULT in error and mentions(error, f"{full}.{column.name}") and " DEFAULT " in column.ddl:
                    sql = f"ALTER TABLE {quote(table.name)} ALTER COLUMN {quote(column.name)} DROP DEFAULT"
                    return Op("give way", table.name, (sql,), with_column(table, without_default(column)))
        return None

    def attempt(self, step: str, act: Any) -> str | None:
        """Do a step of the product; None, or what it refused. A crash is a finding."""
        self.result.steps[step] = self.result.steps.get(step, 0) + 1
        began = time.monotonic()
        try:
            answer, error = act(), None
        except CdcError as refusal:
            answer, error = None, str(refusal)
            self.refusal(step, "", f"{type(refusal).__name__}: {refusal}")
        except Exception as crash:
            lines = traceback.format_exc().splitlines()
            answer, error = None, f"{type(crash).__name__}: {crash}"
            self.find("crash", step, "", f"{error[:500]} … {' '.join(lines[-6:-1])[:500]}")
        self.last_error = error or ""
        self.note({"step": step, "seconds": round(time.monotonic() - began, 1), "answer": answer, "error": error})
        return error

    def round(self, number: int, one: Round) -> bool:
        """Statements, a step with statements beside it, and the check. False: the pipeline is stuck."""
        with self.heat(compared=one.step is not Step.APPLY):
            if one.step is Step.GAP:
                self.pipe.pause()
            self.do_all(one.before)
            if one.step is Step.GAP:
                self.pipe.purge()
            with ThreadPoolExecutor(1) as pool:
                beside = pool.submit(self.do_all, one.beside)
                done = self.step(one.step)
                beside.result()
        self.note({"round": number, "done": done})
        return done and self.finished(str(one.step)) and self.check(str(one.step))

    def step(self, step: Step) -> bool:
        """One step of the product. False if a repair ends without a word of any table."""
        if step is Step.APPLY:
            self.applied(step)
        elif step is Step.CHECK:
            self.attempt(step, lambda: self.judged(self.pipe.compare(dry=True)))
        elif step is Step.REPAIR:
            return self.repaired()
        else:
            self.recovered(step)
        return True

    def damage(self, table: str) -> None:
        """Delete rows of a sink table behind the product's back."""
        place = f"`lake`.`{self.pipe.namespace}`.`{sink_name(table)}`"
        self.pipe.servers.spark.sql(f"DELETE FROM {place} WHERE n % 2 = 1").collect()
        self.note({"damage": table})

    def judged(self, verdicts: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
        """What the product says of tables; a verdict without a reason is a finding."""
        for table, (verdict, samples) in verdicts.items():
            if verdict != MATCH:
                self.refusal(Step.CHECK, table, f"{verdict}: {samples or 'no reason'}")
        return verdicts

    def repaired(self) -> bool:
        """Change rows of a sink table, then repair all tables."""
        tables = [t for t in self.pipe.tables if t not in self.refused]
        if tables:
            table = self.generator.dice.choice(tables)
            self.damage(table)
        verdicts: dict[str, tuple[str, str]] = {}
        error = self.attempt(Step.REPAIR, lambda: verdicts.update(self.judged(self.pipe.compare(dry=False))))
        unsaid = {t for t in tables if verdicts.get(t, ("", ""))[0] != MATCH}
        self.damaged |= {table} & unsaid if tables else set()
        for table in (t for t, (verdict, _) in verdicts.items() if verdict == MATCH):
            self.equal_now(table)
        return error is None or bool(verdicts)

    def recovered(self, step: Step) -> None:
        """A recovery; what it refuses by its column is done away with."""
        ways = ("full_snapshot",) if "differences" in self.generator.without else ("full_snapshot", "diff_repair")
        asked = self.generator.dice.choice(ways) if step is Step.REREAD else None
        error = self.gave_columns(step, asked)
        self.unfinished = error is not None and PLAN not in error
        if error is None:
            self.all_equal_now()

    def gave_columns(self, step: str, asked: str | None) -> str | None:
        """A recovery, again and again without the columns that it refuses by name; None, or what it refuses at last."""
        error = self.attempt(step, lambda: self.pipe.recover(asked))
        for _ in range(FIRST_COPIES):
            if error is None or not (self.drop_named(error) or (PLAN in error and self.left_out(error))):
                break
            error = self.attempt(step, lambda: self.pipe.recover(asked))
        return error

    def finished(self, step: str) -> bool:
        """Now that the hot rows rest, a recovery that did not end is ended, as a person who cleared its tasks would."""
        if not self.unfinished:
            return True
        self.unfinished = False
        error = self.attempt("finish", self.pipe.recover)
        if error is not None:
            self.stuck(step, error)
            return False
        self.all_equal_now()
        return True

    def all_equal_now(self) -> None:
        """The product has proven every table."""
        for table in self.pipe.tables:
            self.equal_now(table)

    def equal_now(self, table: str) -> None:
        """The product has proven the table: it is compared again."""
        self.refused.pop(table, None)
        self.unmended.discard(table)
        self.damaged.discard(table)
        self.failed.discard(table)

    # --- the check ---------------------------------------------------------------------------------------------------

    def check(self, step: str) -> bool:
        """Let everything drain, apply it, and compare every table that the product has not refused."""
        if (why := self.pipe.drain()) and not self.started_again(step, why):
            return False
        for left in reversed(range(TRIES)):
            said = self.applied(step, is_last=not left)
            if said is None:
                return True  # refused as a whole, and named
            if BEHIND not in said.values():
                break
        for table in list(self.pipe.tables):
            if table not in self.out_of_sight:
                self.compare(step, table)
        return True

    def applied(self, step: str, *, is_last: bool = False) -> dict[str, str] | None:
        """Apply once, and keep in mind what was said of each table; None if it was refused as a whole.

        A table that is not published yet is no refused one, unless this is the `is_last` try.
        """
        said: dict[str, str] = {}
        if self.attempt(Step.APPLY, lambda: said.update(self.pipe.apply())) is not None:
            return None
        for table, why in said.items():
            if why and table not in self.refused and (is_last or why != BEHIND):
                self.refused[table] = why
                self.refusal(step, table, why)
        return said

    @property
    def out_of_sight(self) -> set[str]:
        """Tables that the product does not call equal, or of which a difference was found already."""
        return {*self.refused, *self.damaged, *self.failed, *self.unmended}

    def started_again(self, step: str, why: str) -> bool:
        """The connector has stopped and must be read past by a recovery. False: it stops again, as the docs say it may."""
        self.refusal(step, "", f"the connector stopped: {limits.stop(why)}: {why}")
        codes: list[str] = []
        self.attempt("diagnosis", lambda: codes.append(self.pipe.diagnosis()))
        if "HEALTHY" in codes:
            self.find("healthy", step, "", f"HEALTHY, while the connector has stopped: {why}")
        return self.read_past(step, why)

    def read_past(self, step: str, why: str) -> bool:
        """Read past what stopped the connector by a recovery that is asked for. False: it stops again."""
        if self.gave_columns("restart", "full_snapshot") is None and not (why := self.pipe.drain()):
            self.all_equal_now()
            return True
        self.stuck(step, self.last_error or why)
        return False

    def compare(self, step: str, table: str) -> None:
        """The independent comparison of one table that the product says is applied."""
        servers = self.pipe.servers
        generated = "generated" not in self.generator.without
        differences = self._compared(servers, table, generated=generated)
        self.result.compared += 1
        self.share(table).compared += 1
        self.note(
            {"compared": table, "rows": [differences.source_rows, differences.sink_rows], "equal": differences.equal}
        )
        if differences.equal:
            self.since[table] = []
            self.unseen.pop(table, None)
            return
        if table in self.unseen:
            self.mend(table, self.unseen.pop(table))
            return
        self.failed.add(table)
        what = f"{differences.why or f'{differences.missing} rows only in the source, {differences.ghosts} only in the sink'}"
        self.find("difference", step, table, f"{what}; {' | '.join(differences.examples)}", differences.columns)

    def mend(self, table: str, why: str) -> None:
        """A table differs that only a comparison can see: the product's repair must see it, and what it calls MATCH must be."""
        self.refusal(Step.REPAIR, table, f"only a comparison sees: {why} (transaction)")
        verdicts: dict[str, tuple[str, str]] = {}
        self.attempt(Step.REPAIR, lambda: verdicts.update(self.judged(self.pipe.compare(dry=False, tables=[table]))))
        if verdicts.get(table, ("", ""))[0] == MATCH:
            self.compare(Step.REPAIR, table)
        else:
            self.unmended.add(table)

    def _compared(self, servers: Servers, table: str, *, generated: bool) -> Comparison:
        place = self.pipe.namespace
        return compare(servers.admin, servers.catalog, self.pipe.database, table, place, generated=generated)

    def last_word(self) -> None:
        """At rest: what the product's own comparison calls MATCH, and whether it calls a refused pipeline HEALTHY."""
        verdicts: dict[str, tuple[str, str]] = {}
        if self.attempt(Step.CHECK, lambda: verdicts.update(self.judged(self.pipe.compare(dry=True)))) is None:
            for table in (t for t, (verdict, _) in verdicts.items() if verdict == MATCH):
                if table in self.damaged | self.failed:  # a lie, or apply has read it again since
                    self.compare("last check, called MATCH", table)
        if self.refused and "healthy" not in self.generator.without:
            codes: list[str] = []
            self.attempt("diagnosis", lambda: codes.append(self.pipe.diagnosis()))
            if codes == ["HEALTHY"]:
                told = "; ".join(f"{table}: {why}" for table, why in self.refused.items())
                self.find(
                    "healthy", "diagnosis", next(iter(self.refused)), f"HEALTHY, while apply refuses {told}"[:600]
                )

    # --- what is written down ----------------------------------------------------------------------------------------

    def refusal(self, step: str, table: str, text: str) -> None:
        """Count a refusal by its kind; one that names nothing, or hides a crash, is a finding."""
        kind = kind_of(text, [self.pipe.database, *self.generator.tables])
        self.result.refusals[kind] = self.result.refusals.get(kind, 0) + 1
        self.note({"refusal": text, "step": step, "table": table})
        if fault := fault_of(text):
            self.find(fault, step, table or self.named(text), text)

    def named(self, text: str) -> str:
        """The first of our tables that a text names."""
        return next((t for t in self.pipe.tables if mentions(text, f"{self.pipe.database}.{t}")), "")

    def find(self, kind: str, step: str, table: str, what: str, columns: dict[str, str] | None = None) -> None:
        """Keep a finding, with the last statements of its table."""
        operations = self.since.get(table, [])[-12:]
        seed = self.generator.seed_of(table)
        finding = Finding(kind, seed, str(step), table, what[:1500], columns or {}, operations)
        self.result.findings.append(finding)
        self.share(table).findings += 1
        self.note({"finding": asdict(finding)})


def run_seed(
    servers: Servers,
    seed: int,
    folder: Path,
    *,
    without: frozenset[str],
    rounds: int,
    deadline: float,
    tamper: bool = False,
) -> Result:
    """One seed; its statements and all that came of them are in `<folder>/<seed>.jsonl`."""
    return _run(servers, Generator(seed, without), folder, rounds=rounds, deadline=deadline, tamper=tamper)


def run_crowd(
    servers: Servers, seeds: Sequence[int], folder: Path, *, without: frozenset[str], rounds: int, deadline: float
) -> Result:
    """Several seeds in one pipeline; `by_seed` says what each came to. A crowd in which nothing is compared has failed."""
    result = _run(servers, Crowd(tuple(seeds), without), folder, rounds=rounds, deadline=deadline)
    if not result.compared and not result.failed:
        result.findings.append(Finding("idle", seeds[0], "crowd", "", f"nothing was compared: {list(result.refusals)}"))
    return result


def _run(
    servers: Servers,
    generator: Generator | Crowd,
    folder: Path,
    *,
    rounds: int,
    deadline: float,
    tamper: bool = False,
) -> Result:
    folder.mkdir(parents=True, exist_ok=True)
    seed = generator.seeds[0]
    began, result = time.monotonic(), Result(seed, by_seed={seed: Share() for seed in generator.seeds})
    with (folder / f"{seed}.jsonl").open("w") as log:
        pipe = Pipe(servers, f"adv{seed}", list(generator.tables), generator.modes, form=generator.form)
        story = Story(generator, pipe, log, result, tamper=tamper)
        story.note({"seeds": generator.seeds, "without": sorted(generator.without), "database": pipe.database})
        story.note({"modes": generator.modes, "form": generator.form.name})
        result.form = generator.form.name
        try:
            story.go(rounds, deadline)
        except Exception as crash:
            story.find("harness", "harness", "", f"{crash!r} … {traceback.format_exc()[-1200:]}")
        finally:
            pipe.end()
            result.seconds = round(time.monotonic() - began, 1)
            story.note({"result": result.to_json()})
    return result
