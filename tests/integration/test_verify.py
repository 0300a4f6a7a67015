"""The comparison on a real server and real stages, with topics in memory: it must find every fault and no other."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core import verdict
from airflow_cdc.core.chunk import quote_ident
from airflow_cdc.core.digest import HashLeaves, IntegerLeaves
from airflow_cdc.core.errors import SourceError, VerificationError
from airflow_cdc.core.observation import TopicState
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.table import TableDef
from airflow_cdc.core.types import sink_type
from airflow_cdc.core.verdict import leaf_of, table_verdict
from airflow_cdc.spark_apps import verify as application
from airflow_cdc.spark_apps.envelope import RAW_SCHEMA
from airflow_cdc.spark_apps.settle import judge
from airflow_cdc.spark_apps.sides import SinkView, source_view
from airflow_cdc.spark_apps.tail import Topic
from airflow_cdc.spark_apps.verify_core import Outcome, Reached, Subject, compare_tables
from airflow_cdc.systems.kafka import KafkaEndpoint
from airflow_cdc.systems.stage import Stage
from tests.integration import apply_support
from tests.integration.every_type import CASES, create_sql, insert_sql, row_id
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.spark_apps.io import Ranges

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT, doc JSON)"
FILL = (
    f"INSERT INTO orders {NUMBERS.format(1000)} SELECT i, CONCAT('n', i), i % 9, JSON_OBJECT('b', i, 'a', 1.5) FROM n"
)

PLAIN = "CREATE TABLE plain (id BIGINT PRIMARY KEY, name VARCHAR(40))"
EVENTS = "CREATE TABLE events (kind VARCHAR(20), n INT)"
FILL_EVENTS = f"INSERT INTO events {NUMBERS.format(300)} SELECT ELT(1 + i % 3, 'a', 'b', NULL), i % 50 FROM n"
GTID_UUID = apply_support.UUID


@dataclass(slots=True)
class Scene:
    """One table read into a stage, and a topic in memory for what happens afterwards."""

    rig: Rig
    table: TableDef
    stage: Stage
    head: int
    events: apply_support.Topic
    lock: threading.Lock = field(default_factory=threading.Lock)
    start: int | None = None
    reached: int = 0

    def source(self, statement: str) -> None:
        """A change of the source alone."""
        self.rig.run(statement)

    def sink(self, statement: str) -> None:
        """A change of the stage alone; what is compared is the stage after it."""
        self.rig.spark.sql(statement.replace("{}", self.stage.spark_name(self.rig.lake.name)))
        self.head = self.rig.lake.stage_head(self.stage)

    def reach(self, hook: Callable[[int], None] = lambda _: None) -> Reached:
        """The position and the ends at one instant."""
        hook(self.reached)
        self.reached += 1
        with self.lock:
            return Reached(self.rig.source.position(), self.events.upto)

    def compare(self, hook: Callable[[int], None] = lambda _: None) -> Outcome:
        """Compare the stage's head with the source; the topic's present ends are those that the stage holds.

        `hook(n)` is called before the n-th look at the source's position, so between reading and judging.
        """
        ends = self.events.upto[self.events.name]
        if self.start is not None:
            ends = {0: self.start}
        begun = Reached(self.rig.source.position(), self.events.upto)
        subject = Subject(
            self.table,
            SinkView(self.rig.spark, self.stage.spark_name(self.rig.lake.name), self.head),
            Topic(self.table, self.events.name, {0: 0}, settings_for(self.table), reader(self.events)),
            ends,
            begun.position,
            1000,
        )
        watermark = self.rig.source.watermark()
        found = compare_tables(
            self.rig.source, [subject], judge, lambda: self.reach(hook), watermark=watermark, start=begun
        )
        return found[0]

    def verdict(self, hook: Callable[[int], None] = lambda _: None) -> tuple[Verdict, Outcome]:
        outcome = self.compare(hook)
        return table_verdict(outcome.tally, outcome.doubts), outcome


def settings_for(table: TableDef) -> Any:
    return apply_support.settings(database__include__list=table.schema)


def reader(events: apply_support.Topic) -> Callable[[SparkSession, Ranges], DataFrame]:
    """Records of the topic in memory, as Kafka would give them."""

    def read(spark: SparkSession, ranges: Ranges) -> DataFrame:
        wanted = ranges.get(events.name, {})
        rows = [
            (events.name, p, o, None if k is None else bytearray(k), None if v is None else bytearray(v))
            for p, o, k, v in list(events.records)
            if p in wanted and wanted[p][0] <= o < wanted[p][1]
        ]
        return spark.createDataFrame(rows, RAW_SCHEMA)

    return read


@pytest.fixture
def scene(rig: Rig) -> Callable[..., Scene]:
    """`scene(name, *ddl)`: the table made, filled and read into a stage."""

    def make(name: str, *statements: str) -> Scene:
        rig.run(*statements)
        table = rig.table(name)
        stage, head = rig.snapshot(table)
        return Scene(rig, table, stage, head, apply_support.Topic(table))

    return make


def counts(outcome: Outcome) -> tuple[int, int, int, int]:
    tally = outcome.tally
    return tally.missing, tally.ghosts, tally.different, tally.unsettled


def order(number: int, **changes: Any) -> dict[str, Any]:
    """A row of `orders` as an event carries it."""
    return {"id": number, "name": f"n{number}", "qty": number % 9, "doc": f'{{"a":1.5,"b":{number}}}', **changes}


# --- faults are found ------------------------------------------------------------------------------------------------

# what changes a value of each sink type, as Spark SQL over the column {c}
OTHER = {
    "double": "IF({c} <=> 5.5, 6.5, 5.5)",
    "string": "concat(coalesce({c}, ''), 'x')",
    "binary": "concat(coalesce({c}, X''), X'01')",
    "date": "IF({c} <=> DATE'2000-02-29', DATE'2000-03-01', DATE'2000-02-29')",
    "timestamp": "coalesce({c}, timestamp_micros(1)) + INTERVAL 1 SECOND",
    "timestamp_ntz": "coalesce({c}, TIMESTAMP_NTZ'2000-01-01') - INTERVAL 0.000001 SECOND",
    "struct<srid:int,wkb:binary>": "named_struct('srid', coalesce({c}.srid, 0) + 1, 'wkb', {c}.wkb)",
}


def other(table: TableDef, name: str) -> str:
    kind = sink_type(table.column(name))
    text = OTHER.get(kind, "IF({c} <=> 5, 6, 5)")
    return f"CAST({text.replace('{c}', quote_ident(name))} AS {kind})"


def test_one_changed_value_of_every_type_one_row_gone_and_one_too_many(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each type's column is changed in a row of its own, in the branch: all are found, and named by their key."""
    monkeypatch.setattr(verdict, "SAMPLE_KEYS", 1000)
    cases = [case for case in CASES if case.changeable]
    names = ", ".join(quote_ident(case.name) for case in cases)
    same = ", ".join(f"t.{quote_ident(case.name)}" for case in cases)
    copies = f"INSERT INTO t (id, {names}) {NUMBERS.format(len(cases) + 2)} SELECT 1000 + n.i, {same} FROM n, t WHERE id = {row_id(0)}"
    made = scene("t", create_sql("t"), *insert_sql("t"), copies)
    assert made.verdict()[0] is Verdict.MATCH
    changes = [
        f"{quote_ident(case.name)} = IF(id = {1001 + at}, {other(made.table, case.name)}, {quote_ident(case.name)})"
        for at, case in enumerate(cases)
    ]
    made.sink(f"UPDATE {{}} SET {', '.join(changes)}")
    gone, extra = 1001 + len(cases), 5000
    made.sink(f"DELETE FROM {{}} WHERE id = {gone}")
    columns = ", ".join(quote_ident(column.name) for column in made.table.mirrored if column.name != "id")
    made.sink(f"INSERT INTO {{}} (id, {columns}) SELECT {extra}, {columns} FROM {{}} WHERE id = {gone + 1}")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (1, 1, len(cases), 0)
    assert set(outcome.tally.samples["different"]) == {str(1001 + at) for at in range(len(cases))}
    assert outcome.tally.samples["missing"] == [str(gone)]
    assert outcome.tally.samples["ghosts"] == [str(extra)]


def test_equal_sides_match_and_are_counted(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL)
    found, outcome = made.verdict()
    assert found is Verdict.MATCH
    assert (outcome.source_rows, outcome.sink_rows, outcome.leaves_rechecked) == (1000, 1000, 0)
    assert outcome.leaves >= 1


def test_inv_25_a_difference_in_json_alone_is_found_in_every_row(scene: Callable[..., Scene]) -> None:
    """JSON is in no leaf digest; spelling does not count, JSON null is not NULL."""
    made = scene("orders", ORDERS, FILL)
    made.source('UPDATE orders SET doc = \'{"a": 1.50, "b": 3}\' WHERE id = 3')
    assert made.verdict()[0] is Verdict.MATCH
    made.sink('UPDATE {} SET doc = \'{"a":1.5,"b":7}\' WHERE id = 4')
    made.source("UPDATE orders SET doc = 'null' WHERE id = 5")
    made.sink("UPDATE {} SET doc = NULL WHERE id = 5")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert outcome.leaves_rechecked == 0
    assert outcome.tally.samples["different"] == ["4", "5"]


def test_inv_25_rows_beyond_the_ends_are_compared_too(scene: Callable[..., Scene]) -> None:
    made = scene("plain", PLAIN, f"INSERT INTO plain {NUMBERS.format(100)} SELECT i, CONCAT('n', i) FROM n")
    made.sink("INSERT INTO {} VALUES (-9223372036854775808, 'low'), (9223372036854775807, 'high')")
    made.source("INSERT INTO plain VALUES (99999999, 'mine')")
    _, outcome = made.verdict()
    assert counts(outcome) == (1, 2, 0, 0)


def test_a_key_that_stands_twice_in_the_sink_is_a_ghost(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL)
    made.sink("INSERT INTO {} SELECT * FROM {} WHERE id = 17")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (0, 1, 0, 0)
    assert outcome.tally.samples["ghosts"] == ["17"]


def test_inv_04_what_is_committed_after_the_pinned_snapshot_is_not_what_is_compared(
    scene: Callable[..., Scene],
) -> None:
    made = scene("orders", ORDERS, FILL)
    pinned = made.head
    made.sink("DELETE FROM {} WHERE id < 500")
    made.head = pinned
    found, outcome = made.verdict()
    assert found is Verdict.MATCH
    assert outcome.sink_rows == 1000


def test_inv_09_the_comparison_reads_no_other_server(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL)
    foreign = replace(made.rig.source.watermark(), server_uuid=GTID_UUID)
    with (
        pytest.raises(SourceError),
        source_view(made.rig.source, made.rig.source.init_statement(foreign), made.table),
    ):
        pytest.fail("a view of another server was opened")


def test_many_differences_are_counted_exactly(scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    """More suspects than are settled one by one."""
    monkeypatch.setattr("airflow_cdc.spark_apps.settle.MAX_SUSPECTS", 50)
    made = scene("orders", ORDERS, FILL)
    made.source("DELETE FROM orders WHERE id <= 300")
    made.source("UPDATE orders SET qty = 77 WHERE id > 700")
    _, outcome = made.verdict()
    assert counts(outcome) == (0, 300, 300, 0)
    assert len(outcome.tally.samples["ghosts"]) == verdict.SAMPLE_KEYS


# --- what is in flight is no fault -----------------------------------------------------------------------------------


def five_changes(made: Scene) -> None:
    """An update, a delete, an insert, a changed key, and a delete with a new insert, in source and topic."""
    made.source("UPDATE orders SET qty = 50 WHERE id = 10")
    made.events.update(order(10), **order(10, qty=50))
    made.source("DELETE FROM orders WHERE id = 11")
    made.events.delete(**order(11))
    made.source("INSERT INTO orders VALUES (2000, 'n2000', 2, NULL)")
    made.events.create(**order(2000, qty=2, doc=None))
    made.source("UPDATE orders SET id = 3000 WHERE id = 12")
    made.events.delete(**order(12))
    made.events.create(**order(12, id=3000))
    made.source("DELETE FROM orders WHERE id = 13")
    made.source("INSERT INTO orders VALUES (13, 'again', 1, '[]')")
    made.events.delete(**order(13))
    made.events.create(**order(13, name="again", qty=1, doc="[]"))


@pytest.mark.parametrize("when", ["before the read", "between read and ends"])
def test_inv_24_keys_in_flight_are_judged_by_the_log(scene: Callable[..., Scene], when: str) -> None:
    made = scene("orders", ORDERS, FILL)
    if when == "before the read":
        made.start = 0
        five_changes(made)
        found, outcome = made.verdict()
    else:
        found, outcome = made.verdict(lambda number: five_changes(made) if number == 0 else None)
    assert found is Verdict.MATCH, outcome.tally
    assert outcome.in_flight == 6
    assert (outcome.source_rows, outcome.sink_rows) == (1000, 1000)


def test_inv_24_a_wrong_row_in_flight_is_found(scene: Callable[..., Scene]) -> None:
    """Also when the source's later value happens to be what the sink holds: the log knows what was there at the ends."""
    made = scene("orders", ORDERS, FILL)
    made.sink("UPDATE {} SET qty = 50 WHERE id = 10")  # what the source will hold a moment later
    made.sink("DELETE FROM {} WHERE id = 11")
    made.sink("INSERT INTO {} VALUES (2000, 'n2000', 2, NULL)")
    made.start = 0
    five_changes(made)
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (1, 1, 1, 0)
    assert outcome.tally.samples["different"] == ["10"]


def test_inv_24_repeats_after_a_restart_are_no_evidence(scene: Callable[..., Scene]) -> None:
    """The connector sends changes again that the sink held at the ends; their before images are older than that."""
    made = scene("orders", ORDERS, FILL)
    first = made.events.update(order(10), **order(10, qty=50))
    second = made.events.update(order(10, qty=50), **order(10, qty=60))
    made.source("UPDATE orders SET qty = 60 WHERE id = 10")
    made.sink("UPDATE {} SET qty = 60 WHERE id = 10")
    made.start = 2
    made.events.event("u", order(10), order(10, qty=50), source=first)
    made.events.event("u", order(10, qty=50), order(10, qty=60), source=second)
    assert made.verdict()[0] is Verdict.MATCH
    made.source("UPDATE orders SET qty = 70 WHERE id = 10")
    made.events.update(order(10, qty=60), **order(10, qty=70))
    found, outcome = made.verdict()
    assert found is Verdict.MATCH, outcome.tally


def test_inv_07_a_change_that_is_shown_later_than_it_is_logged_is_no_difference(scene: Callable[..., Scene]) -> None:
    """The sink applied a change that the source's first read did not show yet."""
    made = scene("orders", ORDERS, FILL)
    made.sink("UPDATE {} SET qty = 50 WHERE id = 10")
    found, outcome = made.verdict(lambda n: made.source("UPDATE orders SET qty = 50 WHERE id = 10") if n == 0 else None)
    assert found is Verdict.MATCH
    assert outcome.tally.equal == 1


def test_a_source_that_changes_without_a_log_is_never_called_equal(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL)
    values = itertools.count(100)
    made.source("UPDATE orders SET qty = 99 WHERE id = 10")
    found, outcome = made.verdict(lambda _: made.source(f"UPDATE orders SET qty = {next(values)} WHERE id = 10"))
    assert found is Verdict.INCONCLUSIVE
    assert counts(outcome) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("doubt", "say"),
    [
        (lambda e: e.truncate(), "truncated"),
        (lambda e: e.event("r", None, order(5)), "read the table anew"),
        (lambda e: e.raw(b'{"id":5}', b"no json"), "cannot be decoded"),
        (lambda e: e.event("u", None, order(5)), "no image of the row before"),
    ],
)
def test_events_that_prove_nothing_leave_the_table_inconclusive(
    scene: Callable[..., Scene], doubt: Callable[[apply_support.Topic], None], say: str
) -> None:
    made = scene("orders", ORDERS, FILL)
    found, outcome = made.verdict(lambda number: doubt(made.events) if number == 0 else None)
    assert found is not Verdict.MATCH
    assert say in " ".join(outcome.doubts)


@pytest.fixture
def busy(scene: Callable[..., Scene]) -> Iterator[Scene]:
    """A writer that changes `orders` without pause, each change in source and topic, from the read on."""
    made = scene("orders", ORDERS, FILL)
    rows = {number: order(number) for number in range(1, 1001)}
    stop = threading.Event()

    def write() -> None:
        rng = random.Random(7)
        with closing(made.rig.server.connect(database=made.rig.schema)) as connection, connection.cursor() as cursor:
            while not stop.is_set():
                number = rng.randrange(1, 1200)
                with made.lock:
                    change(made.events, cursor, rows, number, rng)

    thread = threading.Thread(target=write)
    thread.start()
    yield made
    stop.set()
    thread.join()


def change(
    events: apply_support.Topic, cursor: Any, rows: dict[int, dict[str, Any]], number: int, rng: random.Random
) -> None:
    old = rows.get(number)
    if old is None:
        rows[number] = order(number, qty=rng.randrange(99))
        cursor.execute("INSERT INTO orders VALUES (%(id)s, %(name)s, %(qty)s, %(doc)s)", rows[number])
        events.create(**rows[number])
    elif rng.random() < 0.2:
        cursor.execute("DELETE FROM orders WHERE id = %(id)s", rows.pop(number))
        events.delete(**old)
    else:
        rows[number] = {**old, "qty": rng.randrange(99), "doc": f'{{"b":{rng.randrange(9)}}}'}
        cursor.execute("UPDATE orders SET qty = %(qty)s, doc = %(doc)s WHERE id = %(id)s", rows[number])
        events.update(old, **rows[number])


def test_inv_24_it_ends_under_writes_and_is_right(busy: Scene) -> None:
    """Nearly every key changes while it is compared; then one row of the branch is made wrong."""
    busy.start = 0
    found, outcome = busy.verdict()
    assert found is Verdict.MATCH, outcome.tally
    assert outcome.in_flight > 100
    assert (outcome.source_rows, outcome.sink_rows) == (1000, 1000)
    busy.sink("UPDATE {} SET name = 'wrong' WHERE id IN (7, 900)")
    found, outcome = busy.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (0, 0, 2, 0)
    assert sorted(outcome.tally.samples["different"]) == ["7", "900"]


# --- without a key ---------------------------------------------------------------------------------------------------


def event(kind: str | None, number: int) -> dict[str, Any]:
    return {"kind": kind, "n": number}


def test_copies_of_rows_without_a_key_are_counted(scene: Callable[..., Scene]) -> None:
    made = scene("events", EVENTS, FILL_EVENTS)
    assert made.verdict()[0] is Verdict.MATCH
    made.source("INSERT INTO events VALUES ('a', 3), ('a', 3), (NULL, 999)")
    made.sink("INSERT INTO {} VALUES ('b', 4)")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (3, 1, 0, 0)


def logged(made: Scene, statement: str, op: str, before: Any, after: Any) -> None:
    """A change in source and topic, the event with the place that the server gave it."""
    made.source(statement)
    at = made.rig.source.position()
    place: dict[str, Any] = {"file": at.file, "pos": at.pos - 100, "server_id": at.server_id}
    if at.gtids is not None:
        ((_, _, spans),) = [item for item in at.gtids.items if item[0] == at.server_uuid]
        place["gtid"] = f"{at.server_uuid}:{spans[-1][1]}"
    made.events.event(op, before, after, source=made.events.source(**place))


@pytest.mark.parametrize("when", [-1, 0])
def test_inv_24_images_in_flight_are_taken_back(scene: Callable[..., Scene], when: int) -> None:
    """Changes that the source's view already holds (-1), and changes after it (0)."""
    made = scene("events", EVENTS, FILL_EVENTS)
    made.start = 0
    one_b = "WHERE kind = 'b' AND n = {} LIMIT 1"

    def changes(number: int) -> None:
        if number == when:
            logged(made, "INSERT INTO events VALUES ('a', 3)", "c", None, event("a", 3))
            logged(made, "INSERT INTO events VALUES ('a', 3)", "c", None, event("a", 3))
            logged(made, f"DELETE FROM events {one_b.format(7)}", "d", event("b", 7), None)
            logged(made, f"UPDATE events SET n = 1000 {one_b.format(16)}", "u", event("b", 16), event("b", 1000))

    changes(-1)
    found, outcome = made.verdict(changes)
    assert found is Verdict.MATCH, outcome.tally
    assert outcome.in_flight == 4
    assert outcome.source_rows == outcome.sink_rows == 300


def test_inv_24_a_wrong_count_in_flight_is_found(scene: Callable[..., Scene]) -> None:
    """The sink holds what the source will hold a moment later."""
    made = scene("events", EVENTS, FILL_EVENTS)
    made.sink("INSERT INTO {} VALUES ('a', 3), ('a', 3)")

    def changes(number: int) -> None:
        if number == 0:
            logged(made, "INSERT INTO events VALUES ('a', 3)", "c", None, event("a", 3))
            logged(made, "INSERT INTO events VALUES ('a', 3)", "c", None, event("a", 3))

    found, outcome = made.verdict(changes)
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (0, 2, 0, 0)
    assert outcome.source_rows == 300


def test_leaves_in_python_are_those_of_both_engines(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL, "INSERT INTO orders VALUES (-7, 'x', 1, NULL), (-30, 'y', 1, NULL)")
    sink = SinkView(made.rig.spark, made.stage.spark_name("lake"), made.head)
    with source_view(made.rig.source, "SET @a := 1", made.table) as view:
        for scheme in (IntegerLeaves("id", 10), HashLeaves(13)):
            leaves = sorted(view.leaves(made.table, scheme))
            for leaf in (leaves[0], leaves[1], leaves[-1]):
                ours = sorted(view.hashes(made.table, scheme, [leaf]))
                assert ours == sorted(sink.hashes(made.table, scheme, [leaf]))
                assert {leaf_of(made.table, scheme, key) for key, _ in ours} == {leaf}


# --- the whole application -------------------------------------------------------------------------------------------


class FakeConnect:
    """A connector that has always read everything."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    def raw_config(self, _name: str) -> dict[str, str]:
        return {**apply_support.CONFIG, "database.include.list": self.rig.schema}

    def committed_offset(self, _name: str, _server: str) -> dict[str, Any]:
        at = self.rig.source.position()
        return {"file": at.file, "pos": at.pos, "gtids": str(at.gtids), "ts_sec": 1}


class FakeTransport:
    """Topics in memory."""

    endpoint = KafkaEndpoint("127.0.0.1:1")

    def __init__(self, topics: Mapping[str, apply_support.Topic]) -> None:
        self.topics = topics

    def topic_states(self, names: list[str]) -> dict[str, TopicState]:
        return {name: self.topics[name].state for name in names if name in self.topics}


@pytest.fixture
def recovered(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[Any, Scene]]:
    """A recovery of `orders` whose stage is read and whose connector is resumed; changes wait in the topic."""

    def make() -> tuple[Any, Scene]:
        rig.run(ORDERS, FILL)
        table = rig.table("orders")
        topic = apply_support.Topic(table)
        transport = FakeTransport({topic.name: topic})
        run = rig.recovery_run(["orders"], tmp_path, FakeConnect(rig), transport)
        run.clients.control.acquire(run.run_id, 600)
        epoch = run.clients.control.open_recovery(run.run_id, tables=[table.full_name])
        taken = rig.source.watermark()
        fence = {topic.name: {"id": topic.id, "partitions": {"0": 0}}}
        reading = replace(rig.reading(table, taken, f"recov_{epoch}_1"))
        stamp = replace(reading.stamp, epoch=epoch, offsets=fence)
        head = application_read(rig, replace(reading, stamp=stamp))
        run.clients.control.patch_recovery(
            run.run_id,
            watermark=taken.to_json(),
            fence=fence,
            stages={table.full_name: {"label": reading.stage.label, "rows": 1000, "snapshot_id": head}},
            resumed_at="2026-11-21T10:00:00+00:00",
        )
        monkeypatch.setattr(application, "read_topics", lambda spark, _endpoint, ranges: reader(topic)(spark, ranges))
        return run, Scene(rig, table, reading.stage, head, topic)

    return make


def application_read(rig: Rig, reading: Any) -> int:
    from airflow_cdc.spark_apps.progress import Progress
    from airflow_cdc.spark_apps.snapshot import read_table

    return read_table(rig.tools(), reading, Progress({reading.table.full_name: 0}))


def test_the_application_catches_up_compares_and_says_what_may_be_published(
    recovered: Callable[[], tuple[Any, Scene]],
) -> None:
    run, made = recovered()
    five_changes(made)
    facts = application.verify(run, made.rig.spark, {})
    assert facts["verdict"] == "MATCH"
    told = run.clients.control.state()["recovery"]["verified"][made.table.full_name]
    assert told["verdict"] == "MATCH"
    assert told["snapshot_id"] == told["compared_at"]["snapshot_id"] == made.rig.lake.stage_head(made.stage)
    assert (told["source_rows"], told["sink_rows"]) == (1000, 1000)
    assert Path(facts["data_docs"]).exists()
    assert json.loads((Path(facts["data_docs"]).parent.parent / "verify.json").read_text())["verdict"] == "MATCH"
    assert run.clients.control.ledger_get(run.run_id)["verify"]["tables"] == {made.table.full_name: "MATCH"}


def test_a_wrong_row_in_the_branch_is_named_and_nothing_may_be_published(
    recovered: Callable[[], tuple[Any, Scene]],
) -> None:
    run, made = recovered()
    made.sink("UPDATE {} SET qty = 77 WHERE id = 400")
    with pytest.raises(VerificationError, match=r"orders is MISMATCH .*different: 400") as caught:
        application.verify(run, made.rig.spark, {})
    assert caught.value.verdict == "MISMATCH"
    told = run.clients.control.state()["recovery"]["verified"][made.table.full_name]
    assert (told["verdict"], told["different"], told["samples"]) == ("MISMATCH", 1, ["different: 400"])


def test_verify_waits_for_the_connector_and_no_longer(recovered: Callable[[], tuple[Any, Scene]]) -> None:
    run, made = recovered()
    run.clients.control.patch_recovery(run.run_id, resumed_at=None)
    with pytest.raises(Exception, match="the connector to be resumed"):
        application.verify(run, made.rig.spark, {"resume_seconds": 1})
    run.clients.control.patch_recovery(run.run_id, resumed_at="2026-11-21T10:00:00+00:00")
    application.wait_resumed(run, 1)
