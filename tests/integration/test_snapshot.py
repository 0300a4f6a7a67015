"""The chunked read on a real server: every row once, restartable under its own watermark only, and exact without a key."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError, SourceError
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.stamp import ChunkLedger
from airflow_cdc.decisions.apply.schema_change import load_definition
from airflow_cdc.decisions.apply.start import SNAPSHOT_AT
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import read_position
from airflow_cdc.sinks.iceberg.catalog import EmbeddedCatalog
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.sources.mysql.sql import chunk_predicate
from airflow_cdc.spark_apps.adapters.iceberg_schema import fit_columns
from airflow_cdc.spark_apps.adapters.mysql import MySqlReader
from airflow_cdc.spark_apps.adapters.mysql_exact import exact_view
from airflow_cdc.spark_apps.adapters.mysql_jdbc import jdbc_options, rows_frame
from airflow_cdc.spark_apps.adapters.mysql_view import VIEW_SECONDS
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.recover import find_earlier, next_label, recover
from airflow_cdc.spark_apps.snapshot import read as snapshot
from airflow_cdc.spark_apps.snapshot.read import chunk_groups, read_table
from tests.integration.apply_scene import Connector
from tests.integration.rig import Rig
from tests.marks import gtids_of
from tests.recoveries import advance_to

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
ITEMS = "CREATE TABLE items (a INT NOT NULL, b VARCHAR(20) NOT NULL, v VARCHAR(40), PRIMARY KEY (a, b))"
FILL_ITEMS = f"INSERT INTO items {NUMBERS.format(1000)} SELECT i DIV 7, CONCAT(CHAR(65 + i % 7), '''\\\\', i), CONCAT('v', i) FROM n"
PEOPLE = "CREATE TABLE people (code VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)"
FILL_PEOPLE = f"INSERT IGNORE INTO people {NUMBERS.format(500)} SELECT CONCAT(ELT(1 + i % 5, 'é', 'E', 'ß', '😀', ' '), i), i FROM n"
EVENTS = "CREATE TABLE events (n INT, kind VARCHAR(20))"


def source_rows(rig: Rig, table: str) -> list[tuple[Any, ...]]:
    return sorted(rig.run(f"SELECT * FROM {table}"), key=repr)


@pytest.mark.parametrize("name", ["items", "people"])
@pytest.mark.parametrize(("chunk_rows", "group_chunks"), [(97, 3), (100_000, 8), (1000, 1)])
def test_every_row_arrives_once(rig: Rig, name: str, chunk_rows: int, group_chunks: int) -> None:
    """Composite and collated keys, quotes and backslashes in them, and a chunk that ends exactly at the last row."""
    rig.run(ITEMS, FILL_ITEMS, PEOPLE, FILL_PEOPLE)
    stage, head = rig.snapshot(rig.table(name), chunk_rows=chunk_rows, group_chunks=group_chunks)
    assert rig.staged(stage) == source_rows(rig, name)
    commits = rig.lake.stage_chain(stage)
    assert commits[-1].snapshot_id == head
    assert [commit.stamp is not None for commit in commits] == [False] * (len(commits) - 1) + [True]
    assert commits[-1].ledger is not None
    assert commits[-1].ledger.complete


def test_what_main_held_is_replaced_and_main_is_untouched(rig: Rig) -> None:
    rig.run(ITEMS, FILL_ITEMS)
    table = rig.table("items")
    stage, head = rig.snapshot(table)
    rig.lake.publish(stage, head, stage.base_head)
    rig.run("DELETE FROM items WHERE a < 50", "UPDATE items SET v = 'new' WHERE a = 60")
    second, _ = rig.snapshot(table, "recov_2_1")
    assert rig.staged(second) == source_rows(rig, "items")
    main = rig.spark.sql(f"SELECT count(*) FROM lake.{rig.schema}.items").collect()[0][0]
    assert main == 1000


def test_a_small_table_is_snapshotted_in_one_commit_without_spark(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stage says the same of it as after a read by Spark."""
    rig.run(ITEMS, FILL_ITEMS)
    table, taken = rig.table("items"), rig.source.watermark()
    reading = rig.reading(table, taken, "recov_1_1")
    by_spark = rig.reading(table, taken, "recov_1_2")
    with monkeypatch.context() as without:
        without.setattr(snapshot, "read_keyed", lambda *_: pytest.fail("read by Spark"))
        head = read_table(rig.tools(), reading, Progress({table.full_name: 900}))
    monkeypatch.setattr(snapshot, "read_few", lambda *_: False)
    read_table(rig.tools(), by_spark, Progress({table.full_name: 900}))
    assert rig.staged(reading.stage) == rig.staged(by_spark.stage) == source_rows(rig, "items")
    (ours,), (theirs,) = (rig.lake.stage_chain(one.stage) for one in (reading, by_spark))
    assert (ours.ledger, ours.stamp and ours.stamp.offsets) == (theirs.ledger, theirs.stamp and theirs.stamp.offsets)
    assert rig.tools().writer.row_count(reading.stage, head) == 1000
    rig.lake.publish(reading.stage, head, reading.stage.base_head)
    assert rig.lake.read_arrow(rig.schema, "items").num_rows == 1000


def test_a_small_table_more_costs_no_session_no_connection_and_three_commits(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first snapshot, the pin of its stage, and the rows with stamp and definition."""
    names = ["t1", "t2", "t3", "t4", "t5", "t6"]
    rig.run(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in names), "INSERT INTO t6 VALUES (7)")
    run = open_recovery(rig, tmp_path, names)
    commits, connections = Counter[str](), list[object]()
    commit, connect = EmbeddedCatalog.commit_table, MySqlSource.connect

    def committed(self: EmbeddedCatalog, table: Any, *args: Any) -> Any:
        commits[table.name()[1].removeprefix(f"{rig.schema}__").removesuffix("__recov_1_1")] += 1
        return commit(self, table, *args)

    def connected(self: MySqlSource, **options: Any) -> Any:
        connections.extend([options] if options == {"read_timeout": VIEW_SECONDS} else ())
        return connect(self, **options)

    monkeypatch.setattr(EmbeddedCatalog, "commit_table", committed)
    monkeypatch.setattr(MySqlSource, "connect", connected)
    monkeypatch.setattr(snapshot, "sibling", lambda _spark: pytest.fail("a session was made"))
    facts = recover(run, rig.spark)
    assert facts["rows"] == 1
    assert {name: commits[name] for name in names} == dict.fromkeys(names, 3), commits
    assert len(connections) <= (os.cpu_count() or 1), connections
    for name in names:
        stage = rig.lake.open_stage(rig.schema, name, "recov_1_1")
        assert load_definition(rig.lake.table(*stage.identifier).properties) == rig.table(name)


def test_inv_09_each_read_of_a_kept_connection_proves_its_server(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was lost meanwhile is replaced; one that leads to another server is not read from."""
    rig.run(ITEMS, FILL_ITEMS)
    table, reader = rig.table("items"), MySqlReader(rig.source)
    with reader.few_rows(at=rig.source.watermark()) as few:
        read = partial(few, table, most_rows=5_000, most_bytes=1 << 20)
        rows = read()
        assert rows is not None
        assert rows.num_rows == 1000
        first = few._proven().id
        rig.run(f"KILL {first}")
        assert read() == rows
        assert few._proven().id != first
        monkeypatch.setattr(few, "_init", lambda: rig.source.init_statement(elsewhere(rig.source.watermark())))
        with pytest.raises(SourceError, match="check that this is the watermark's server"):
            read()


def elsewhere(mark: Watermark) -> Watermark:
    return replace(mark, server="00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize(
    ("chunk_rows", "estimate"), [(999, 0), (50_000, 20_000)], ids=["more than a chunk", "estimated as large"]
)
def test_a_larger_table_is_left_to_spark(rig: Rig, chunk_rows: int, estimate: int) -> None:
    rig.run(ITEMS, FILL_ITEMS)
    table = rig.table("items")
    reading = rig.reading(table, rig.source.watermark(), chunk_rows=chunk_rows)
    assert not snapshot.read_few(rig.tools(), reading, Progress({table.full_name: estimate}))
    assert rig.lake.stage_chain(reading.stage) == ()


def test_the_rows_of_a_stage_are_replaced_by_spark(rig: Rig) -> None:
    rig.run(ITEMS, FILL_ITEMS)
    table = rig.table("items")
    stage, head = rig.snapshot(table)
    rig.lake.publish(stage, head, stage.base_head)
    again = rig.reading(table, rig.source.watermark(), "recov_2_1")
    assert not snapshot.read_few(rig.tools(), again, Progress({table.full_name: 0}))


def test_an_empty_table_is_a_complete_snapshot(rig: Rig) -> None:
    rig.run(ITEMS)
    stage, _ = rig.snapshot(rig.table("items"))
    (commit,) = rig.lake.stage_chain(stage)
    assert rig.staged(stage) == []
    assert commit.stamp is not None
    assert commit.ledger == replace(commit.ledger or pytest.fail("no ledger"), complete=True, rows=0)


def test_wide_rows_are_fetched_few_at_a_time_in_small_chunks(rig: Rig) -> None:
    """10,000 rows at once, as narrow ones are read, were 10 GB of documents: OutOfMemoryError (2,000 of 1 MB, a heap of 1.5 GB)."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)"
    rig.run(
        "CREATE TABLE wide (id INT PRIMARY KEY, body LONGTEXT CHARACTER SET latin1)",
        f"INSERT INTO wide {numbers} SELECT i, REPEAT('x', 500000) FROM n",
        "ANALYZE TABLE wide",
    )
    reader, table = rig.tools().reader, rig.table("wide")
    size = reader.sizes([table])[table.full_name]
    assert 40 < size.rows < 360
    assert 100_000 < size.row_bytes < 2_000_000
    options = reader._options(table, rig.source.watermark())  # type: ignore[attr-defined]
    assert int(options["fetchsize"]) == size.fetched_rows() < 160
    stage, _ = rig.snapshot(table)
    assert len(rig.staged(stage)) == 120


def test_chunks_are_ranges_of_the_keys_index(rig: Rig) -> None:
    """The statement that Spark sends reads a range of the primary key, raw, behind the derived table."""
    rig.run(ITEMS, FILL_ITEMS)
    table = rig.table("items")
    reading = rig.reading(table, rig.source.watermark(), chunk_rows=300)
    groups = list(chunk_groups(rig.tools().reader, reading))
    predicates = [chunk_predicate(table, chunk.lo, chunk.hi) for group in groups for chunk in group]
    frame = rows_frame(rig.spark, jdbc_options(rig.source, "SET @a := 1", 100), table, predicates)
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    relation = plan.split("JDBCRelation(")[1].split(") [numPartitions")[0]
    for predicate in predicates:
        (row,) = rig.run(f"EXPLAIN SELECT v_0, v_1, v_2 FROM {relation} WHERE {predicate}")
        assert (row[4], row[6]) in {("range", "PRIMARY"), ("index", "PRIMARY")}, row
    assert len(predicates) == 4


@pytest.fixture
def killed_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`killed_after(n)`: the read dies before its commit number n + 1."""

    def arm(commits: int) -> None:
        real = snapshot.write_group
        made: list[int] = []

        def write(*args: Any, **kwargs: Any) -> None:
            if len(made) == commits:
                raise RuntimeError("killed")
            made.append(1)
            real(*args, **kwargs)

        monkeypatch.setattr(snapshot, "write_group", write)

    return arm


def test_inv_03_a_killed_read_goes_on_where_its_last_commit_stands(
    rig: Rig, killed_after: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.run(ITEMS, FILL_ITEMS)
    table, taken = rig.table("items"), rig.source.watermark()
    reading = rig.reading(table, taken, chunk_rows=100, group_chunks=2)
    killed_after(3)
    with pytest.raises(RuntimeError, match="killed"):
        read_table(rig.tools(), reading, Progress({table.full_name: 0}))
    monkeypatch.undo()
    fresh = ChunkLedger(taken.hash, taken.server, table.fingerprint)
    found = find_earlier(rig.lake, rig.lake.stages(rig.schema, "items"), fresh, 1)
    assert found is not None
    stage, ledger = found
    assert (ledger.rows, ledger.complete) == (600, False)
    label = next_label(rig.lake.stages(rig.schema, "items"), 1)
    assert label == "recov_1_2"
    again = replace(
        reading,
        stage=rig.lake.stage(
            rig.schema, "items", label, from_stage=rig.lake.open_stage(rig.schema, "items", stage.label)
        ),
        ledger=ledger,
    )
    lows = [group[0].lo for group in chunk_groups(rig.tools().reader, again)]
    assert lows[0] == tuple(ledger.done_to or ())
    read_table(rig.tools(), again, Progress({table.full_name: 0}))
    assert rig.staged(again.stage) == source_rows(rig, "items")
    # the orphan of the first try goes on writing to its own stage
    orphan = rows_frame(rig.spark, jdbc_options(rig.source, "SET @a := 1", 100), table)
    snapshot.write_group(rig.tools().writer, orphan, reading, ledger, first=False)
    assert rig.staged(again.stage) == source_rows(rig, "items")


def test_inv_03_chunks_of_another_watermark_server_or_definition_count_for_nothing(rig: Rig) -> None:
    rig.run(ITEMS, FILL_ITEMS)
    table = rig.table("items")
    rig.snapshot(table)
    stages = rig.lake.stages(rig.schema, "items")
    chain = rig.lake.stage_chain(stages[0])
    mine = chain[-1].ledger or pytest.fail("no ledger")
    assert find_earlier(rig.lake, stages, mine, 1) is not None
    later = rig.source.watermark()
    for other in (
        replace(mine, w=later.hash),
        replace(mine, server_uuid="75ac0c48-0000-11f0-8000-000000000001"),
        replace(mine, fingerprint="x"),
    ):
        assert find_earlier(rig.lake, stages, other, 1) is None
    assert find_earlier(rig.lake, stages, mine, 2) is None


def test_inv_09_another_server_is_not_read(rig: Rig) -> None:
    rig.run(ITEMS, FILL_ITEMS)
    table = rig.table("items")
    foreign = replace(rig.source.watermark(), server="75ac0c48-0000-11f0-8000-000000000001")
    reading = rig.reading(table, foreign)
    with pytest.raises(SourceError):
        read_table(rig.tools(), reading, Progress({table.full_name: 0}))
    # Spark's own connections refuse as well
    frame = rows_frame(rig.spark, jdbc_options(rig.source, rig.source.init_statement(foreign), 100), table)
    with pytest.raises(Exception, match=r"returns more than 1 row|is not 75ac0c48"):
        frame.collect()
    assert rig.lake.stage_chain(reading.stage) == ()


@pytest.fixture
def writer(rig: Rig) -> Iterator[list[int]]:
    """Inserts 1, 2, 3 … into `events`, one transaction each, until the test ends: [rows, transactions before]."""
    rig.run(EVENTS)
    stop, written = threading.Event(), [0, transactions(mysql_position(rig.source.watermark().position).gtids)]

    def write() -> None:
        with closing(rig.server.connect(database=rig.schema)) as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("INSERT INTO events VALUES (%s, 'k')", (written[0] + 1,))
                written[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    yield written
    stop.set()
    thread.join()


def transactions(gtids: GtidSet | None) -> int:
    return sum(hi - lo + 1 for _, _, spans in (gtids or GtidSet()).items for lo, hi in spans)


def test_inv_19_a_table_without_a_key_is_read_at_exactly_its_stamped_position(rig: Rig, writer: list[int]) -> None:
    """The writer is the only one on the server: every transaction since it began is one row of the table."""
    table = rig.table("events")
    while writer[0] < 50:
        threading.Event().wait(0.01)
    stage, _ = rig.snapshot(table)
    commits = rig.lake.stage_chain(stage)
    position = Watermark.from_json(commits[-1].summary[SNAPSHOT_AT], read_position)
    rows = [number for number, _ in rig.staged(stage)]
    held = len(rows)
    assert sorted(rows) == list(range(1, held + 1))
    assert writer[0] > held
    assert transactions(gtids_of(position)) == writer[1] + held
    assert commits[0].ledger is not None
    assert not commits[0].ledger.complete


def test_inv_19_writers_wait_only_until_the_view_is_open(rig: Rig, writer: list[int]) -> None:
    """While Spark still reads, the table is free again."""
    table, opened = rig.table("events"), threading.Event()
    seen: list[int] = []

    def slow_read() -> None:
        with closing(rig.source.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT GET_LOCK('cdc_test_view', 0)")
            before = writer[0]
            opened.set()
            while writer[0] < before + 20:
                threading.Event().wait(0.01)
            cursor.execute(f"SELECT COUNT(*) FROM {rig.schema}.events")
            seen.extend(row[0] for row in cursor.fetchall())

    exact_view(rig.source, table, "cdc_test_view", slow_read)
    assert opened.is_set()
    assert seen[0] < writer[0]


def test_a_read_that_dies_before_its_view_frees_the_table(rig: Rig, writer: list[int]) -> None:
    def dies() -> None:
        raise RuntimeError("no view")

    with pytest.raises(RuntimeError, match="no view"):
        exact_view(rig.source, rig.table("events"), "cdc_never", dies)
    before = writer[0]
    while writer[0] < before + 5:
        threading.Event().wait(0.01)
    assert writer[0] >= before + 5


def test_a_stage_takes_over_the_sources_columns(rig: Rig) -> None:
    """A name that came back as another type is another column; order and widened types follow the source."""
    rig.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9), c DECIMAL(9,2))",
        "INSERT INTO t VALUES (1, 2, 'x', 3.5)",
    )
    stage, head = rig.snapshot(rig.table("t"))
    rig.lake.publish(stage, head, stage.base_head)
    before = {field.name: field.field_id for field in rig.lake.table(rig.schema, "t").schema().fields}
    rig.run(
        "ALTER TABLE t DROP COLUMN b, DROP COLUMN a, ADD COLUMN a VARCHAR(5) FIRST, ADD COLUMN n JSON AFTER id, MODIFY id BIGINT, MODIFY c DECIMAL(12,2)",
        "UPDATE t SET a = 'new'",
    )
    table = rig.table("t")
    again, _ = rig.snapshot(table, "recov_2_1")
    schema = rig.lake.table(*again.identifier).schema()
    assert [field.name for field in schema.fields] == ["a", "id", "n", "c"]
    ids = {field.name: field.field_id for field in schema.fields}
    assert ids["id"] == before["id"]
    assert ids["c"] == before["c"]
    assert ids["a"] > max(before.values())
    assert rig.staged(again, "a, id, n, cast(c as string)") == [("new", 1, None, "3.50")]
    assert [f.name for f in rig.lake.table(rig.schema, "t").schema().fields] == ["id", "a", "b", "c"]
    assert not fit_columns(
        rig.lake, again, [("a", "string"), ("id", "bigint"), ("n", "string"), ("c", "decimal(12,2)")]
    )


@pytest.fixture
def recovery(rig: Rig, tmp_path: Path) -> Run:
    """An open recovery over a keyed and a keyless table, W taken."""
    rig.run(ITEMS, FILL_ITEMS, EVENTS, "INSERT INTO events VALUES (1, 'a'), (1, 'a'), (2, NULL)")
    return open_recovery(rig, tmp_path, ["items", "events"])


def open_recovery(rig: Rig, folder: Path, names: list[str]) -> Run:
    """An open recovery over these tables, W taken."""
    run = rig.recovery_run(names, folder, Connector(rig.schema))
    tables = list(run.pipeline.source.tables)
    run.clients.control.acquire(run.run_id, 600)
    run.clients.control.open_recovery(run.run_id, tables=tables)
    advance_to(
        run.clients.control,
        run.run_id,
        watermark=rig.source.watermark().to_json(),
        fence={"shop.items": {"id": "t1", "partitions": {"0": 7}}},
        definitions={f"{rig.schema}.{name}": rig.table(name).fingerprint for name in names},
    )
    return run


def test_recover_reads_all_tables_and_says_where_they_stand(rig: Rig, recovery: Run) -> None:
    facts = recover(recovery, rig.spark)
    document = recovery.clients.control.state()["recovery"]
    assert facts["rows"] == 1003
    assert document["stages"] == {
        name: {k: v for k, v in told.items() if v is not None} for name, told in facts["stages"].items()
    }
    for name in ("items", "events"):
        told = facts["stages"][f"{rig.schema}.{name}"]
        stage = rig.lake.open_stage(rig.schema, name, told["label"])
        assert rig.staged(stage) == source_rows(rig, name)
        stamp = rig.lake.stamp(*stage.identifier)
        assert stamp is not None
        assert (stamp.epoch, stamp.watermark) == (document["epoch"], document["watermark"])
        assert stamp.next_offset("shop.items", 0) == 7
        assert load_definition(rig.lake.table(*stage.identifier).properties) == rig.table(name)


def test_inv_03_a_cleared_recover_reads_nothing_twice(rig: Rig, recovery: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first = recover(recovery, rig.spark)

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        pytest.fail("a complete table was read again")

    for read in ("read_few", "read_keyed", "read_keyless"):
        monkeypatch.setattr(snapshot, read, refuse)
    second = recover(recovery, rig.spark)
    for table, told in second["stages"].items():
        assert told["label"] == "recov_1_2"
        assert told["rows"] == first["stages"][table]["rows"]


def test_inv_21_a_column_that_the_connector_leaves_out_is_not_read(rig: Rig, recovery: Run) -> None:
    """Also one that somebody leaves out within the recovery: the stage that has it is not continued."""
    recover(recovery, rig.spark)
    connector: Any = recovery.clients.connector
    connector.settings["column.exclude.list"] = rf"{rig.schema}\.items\.v"
    told = recover(recovery, rig.spark)["stages"][f"{rig.schema}.items"]
    stage = rig.lake.open_stage(rig.schema, "items", told["label"])
    assert rig.staged(stage) == sorted((row[:2] for row in source_rows(rig, "items")), key=repr)


def test_inv_11_a_definition_that_changed_since_w_is_not_read(rig: Rig, recovery: Run) -> None:
    rig.run("ALTER TABLE items ADD COLUMN w INT")
    with pytest.raises(SchemaError, match=r"items changed since the watermark"):
        recover(recovery, rig.spark)
    assert "stages" not in recovery.clients.control.state()["recovery"]
