"""MySQL and Spark give one hash, one key text and one leaf for equal rows, and another for any change.

The rows travel the product's own way: `read_sql` over JDBC with each driver, `from_read`, an Iceberg table.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql
import pytest

from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.types import Bytes, Geometry, Instant, Json, LocalDateTime
from airflow_cdc.decisions.compare import canonical, leaves
from airflow_cdc.decisions.compare.canonical import parse_key_text
from airflow_cdc.decisions.compare.chunk import Chunk
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql import encoding as mysql_sql
from airflow_cdc.sources.mysql.quoting import quote_ident, quote_table
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.sources.mysql.session import MySqlEndpoint, Session, open_session
from airflow_cdc.sources.mysql.sql import boundary_sql, chunk_predicate, key_predicate
from airflow_cdc.sources.mysql.types import read_sql
from airflow_cdc.spark_apps.adapters.mysql_few import read_few
from airflow_cdc.spark_apps.adapters.mysql_values import from_read
from airflow_cdc.spark_apps.canonical.spark import row_hash as spark_row_hash
from airflow_cdc.spark_apps.compare import digest as spark_sql
from airflow_cdc.spark_apps.compare import few
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.types import sink_type
from stack import fetch
from tests.integration.every_type import CASES, LOAD_MODE, create_sql, insert_sql, row_count, row_id, update_sql
from tests.unit import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stack.mysql import MySqlServer

DRIVERS = {
    "mariadb": ("org.mariadb.jdbc.Driver", "permitMysqlScheme=true&useServerPrepStmts=true"),
    "mariadb-text": ("org.mariadb.jdbc.Driver", "permitMysqlScheme=true&useServerPrepStmts=false"),
    "mysql": ("com.mysql.cj.jdbc.Driver", "useServerPrepStmts=true&allowPublicKeyRetrieval=true&useSSL=false"),
}


class Source:
    """A database on the real server, and its rows as Spark reads them."""

    def __init__(self, server: MySqlServer, spark: SparkSession, schema: str) -> None:
        self.server, self.spark, self.schema = server, spark, schema

    def run(self, *statements: str, sql_mode: str = LOAD_MODE) -> list[tuple[Any, ...]]:
        """Run statements in one UTC session; the last one's rows."""
        rows: list[tuple[Any, ...]] = []
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00'", [sql_mode])
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    def table(self, name: str) -> Table:
        """The definition as the server has it now."""
        with closing(self._connect()) as connection:
            return read_table_defs(connection, [f"{self.schema}.{name}"])[f"{self.schema}.{name}"]

    def frame(self, table: Table, driver: str = "mariadb") -> DataFrame:
        """The table in its sink types, read over JDBC."""
        columns = ", ".join(f"{read_sql(c)} AS {quote_ident(f'c{i}')}" for i, c in enumerate(table.mirrored))
        raw = jdbc(self.spark, self.server, f"SELECT {columns} FROM {quote_table(table)}", driver)
        pairs = enumerate(table.mirrored)
        return raw.selectExpr(*(f"{from_read(c, f'c{i}')} AS {quote_ident(c.name)}" for i, c in pairs))

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session of the product's own."""
        login = self.server.cdc
        with open_session(MySqlEndpoint(self.server.host, self.server.port, login.user, login.password)) as session:
            yield session

    def _connect(self) -> Any:
        server = self.server
        return pymysql.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.password,
            charset="utf8mb4",
            autocommit=True,
        )


def jdbc(spark: SparkSession, server: MySqlServer, query: str, driver: str) -> DataFrame:
    name, settings = DRIVERS[driver]
    reader = spark.read.format("jdbc").option("url", f"jdbc:mysql://{server.host}:{server.port}/?{settings}")
    reader = reader.option("driver", name).option("user", server.user).option("password", server.password)
    return reader.option("sessionInitStatement", "SET SESSION time_zone = '+00:00'").option("query", query).load()


def view(frame: DataFrame, name: str) -> str:
    frame.createOrReplaceTempView(name)
    return name


def pairs(rows: list[Any]) -> dict[Any, Any]:
    return {row[0]: row[1] for row in rows}


@pytest.fixture(scope="module")
def source(mysql: MySqlServer, spark: SparkSession) -> Iterator[Source]:
    register_functions(spark)
    for jar in fetch.set_jars("debezium"):  # Debezium's own driver; the product reads with MariaDB's
        if jar.name.startswith("mysql-connector-j"):
            spark.sql(f"ADD JAR '{jar}'")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.encoding")
    made = Source(mysql, spark, "enc_agrees")
    made.run("DROP DATABASE IF EXISTS enc_agrees", "CREATE DATABASE enc_agrees")
    yield made
    made.run("DROP DATABASE enc_agrees")


@pytest.fixture(scope="module")
def every(source: Source) -> Table:
    """Every type at its edges, loaded once and left as it is."""
    source.run(create_sql("enc_agrees.every"), *insert_sql("enc_agrees.every"))
    return source.table("every")


# the product reads with the first two, the last is Debezium's
@pytest.fixture(scope="module", params=["mariadb", "mariadb-text", pytest.param("mysql", marks=pytest.mark.slow)])
def sink(request: pytest.FixtureRequest, source: Source, every: Table) -> str:
    """The sink's table: what the driver read, stored in Iceberg."""
    name = f"lake.encoding.{request.param.replace('-', '_')}"
    source.spark.sql(f"DROP TABLE IF EXISTS {name}")
    source.frame(every, request.param).writeTo(name).create()
    return name


@pytest.fixture(scope="module")
def lake(lake_properties: dict[str, str]) -> Lake:
    return Lake("lake", lake_properties)


def test_rows_have_one_hash(source: Source, every: Table, sink: str) -> None:
    ours = pairs(source.spark.sql(f"SELECT id, {spark_row_hash(every)} FROM {sink}").collect())
    theirs = pairs(source.run(f"SELECT id, {mysql_sql.row_hash(every)} FROM {quote_table(every)}"))
    assert len(theirs) == row_count()
    assert None not in theirs.values()
    assert ours == theirs, differing_columns(source, every, sink)


def test_the_hash_is_the_one_of_the_reference(source: Source, every: Table, sink: str) -> None:
    """Of the values as Python has them: so no engine is only ever compared with itself."""
    theirs = pairs(source.run(f"SELECT id, {mysql_sql.row_hash(every)} FROM {quote_table(every)}"))
    ours = {row["id"]: canonical.row_hash(every, row) for row in python_rows(source.spark, every, sink)}
    assert ours == theirs


def python_rows(spark: SparkSession, table: Table, relation: str) -> list[dict[str, Any]]:
    """The rows of the sink in the values that the reference takes."""
    columns = canonical.hashed(table)
    rows = spark.sql(
        f"SELECT {', '.join(f'{plain(c)} AS c{n}' for n, c in enumerate(columns))} FROM {relation}"
    ).collect()
    return [{c.name: python_value(c, row[n]) for n, c in enumerate(columns)} for row in rows]


def plain(column: Column) -> str:
    """Spark: a moment by its microseconds, because Python would shift it into its own time zone."""
    name = quote_ident(column.name)
    moment = isinstance(column.type, LocalDateTime | Instant)
    return f"unix_micros(CAST({name} AS timestamp))" if moment else name


def python_value(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(column.type, LocalDateTime | Instant):
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)  # noqa: DTZ001 - as the reference takes it
    if isinstance(column.type, Geometry):
        return value["srid"], bytes(value["wkb"])
    return bytes(value) if isinstance(column.type, Bytes) else value


def differing_columns(source: Source, table: Table, sink: str) -> list[str]:
    """Which columns are to blame: each hashed alone."""
    found = []
    for column in table.compared:
        if isinstance(column.type, Json):
            continue
        alone = Table(table.schema, table.name, (column,))
        ours = pairs(source.spark.sql(f"SELECT id, {spark_row_hash(alone)} FROM {sink}").collect())
        theirs = pairs(source.run(f"SELECT id, {mysql_sql.row_hash(alone)} FROM {quote_table(table)}"))
        if bad := [i for i in theirs if theirs[i] != ours[i]]:
            rows = source.run(f"SELECT id, CAST({quote_ident(column.name)} AS CHAR) FROM {quote_table(table)}")
            read = source.spark.sql(f"SELECT id, {quote_ident(column.name)} FROM {sink}").collect()
            found.append(f"{column.name}: {[(i, pairs(rows)[i], pairs(read)[i]) for i in bad][:4]}")
    return found


def test_hashes_do_not_depend_on_the_session(source: Source, every: Table) -> None:
    sql = f"SELECT id, {mysql_sql.row_hash(every)} FROM {quote_table(every)}"
    plain = source.run(sql)
    default = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO"
    for mode in (
        "",
        default,
        "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT",
        "PAD_CHAR_TO_FULL_LENGTH",
        "REAL_AS_FLOAT",
    ):
        assert source.run(sql, sql_mode=mode) == plain, mode
    assert source.run("SET NAMES latin1", sql) == plain
    assert source.run("SET SESSION time_zone = '+05:30'", sql) == plain


def test_sink_types_are_the_declared_ones(source: Source, every: Table, sink: str) -> None:
    declared = {c.name: sink_type(c) for c in every.mirrored}
    assert {f.name: f.dataType.simpleString() for f in source.spark.table(sink).schema} == declared


# rows 4 to 6 of the JSON column: doubles, integers, decimals, with every digit (INV 29)
NUMBERS = [
    f"[10000000,1{'0' * 15},1{'0' * 16},1{'0' * 20},1234567890000000057344,1e+300,5e-324,1e-05,12345678.9,-2.5e-07,4.35]",
    "[18446744073709551615,-9223372036854775808,9223372036854774784,12345678901234568,18446744073709551616]",
    f"[12345678901234567890.12345678901234567890123456789,0.12345678901234567,100,{'9' * 35}]",
]


def test_inv_29_json_agrees_in_canonical_form(source: Source, every: Table, sink: str) -> None:
    assert canonical.outside_hash(every) == ("j",)
    stored = {row["id"]: row["j"] for row in source.spark.table(sink).select("id", "j").collect()}
    assert stored[row_id(1)] == '{"a":[1,2000,"ü😀|"],"b":1}'
    assert stored[row_id(0)] == "null"
    assert stored[row_id(row_count() - 1)] is None
    assert stored[row_id(3)] == '{"d":1.1}'
    assert [stored[row_id(number)] for number in (4, 5, 6)] == NUMBERS
    fetched = jdbc(source.spark, source.server, mysql_sql.outside_sql(every), "mariadb")
    texts = fetched.selectExpr("key_text", f"{from_read(every.column('j'), 'x0')} AS j").collect()
    assert {int(row["key_text"]): row["j"] for row in texts} == stored


def test_dates_that_are_none_are_null_or_the_epoch(source: Source, every: Table, sink: str) -> None:
    rows = {
        row["id"]: row for row in source.spark.table(sink).select("id", "da", "dan", "dt", "dtn", "tsn", "ts").collect()
    }
    invalid = [number for number, value in enumerate(next(c for c in CASES if c.name == "dan").values) if number]
    assert len(invalid) == 7
    for number in invalid:
        assert str(rows[row_id(number)]["dan"]) == "1970-01-01"
        assert str(rows[row_id(number)]["dtn"]) == "1970-01-01 00:00:00"
    nullable = next(c for c in CASES if c.name == "da").values
    assert [rows[row_id(n)]["da"] is None for n in range(len(nullable))] == [False] * 5 + [True] * 7
    epoch = source.spark.sql(f"SELECT unix_micros(tsn) AS n, ts FROM {sink} WHERE id = {row_id(1)}").collect()[0]
    assert epoch["n"] == 0
    zero = len(next(c for c in CASES if c.name == "ts").values) - 1
    assert rows[row_id(zero)]["ts"] is None


def test_instants_are_utc_around_a_change_of_clocks(source: Source, every: Table, sink: str) -> None:
    theirs = source.run(f"SELECT id, UNIX_TIMESTAMP(ts) FROM {quote_table(every)} WHERE ts > 0")
    ours = source.spark.sql(f"SELECT id, unix_seconds(ts) FROM {sink} WHERE ts IS NOT NULL").collect()
    assert pairs(ours) == pairs(theirs)
    assert len(theirs) == 7


@pytest.mark.parametrize("case", [c for c in CASES if c.changeable], ids=lambda c: c.name)
def test_a_changed_value_changes_the_hash(source: Source, every: Table, case: Any) -> None:
    number = 0
    text = str(row_id(number))
    before = source.run(mysql_sql.keys_sql(every, [text]))
    with closing(source._connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00'", [LOAD_MODE])
        connection.begin()
        cursor.execute(update_sql(quote_table(every), case, number))
        cursor.execute(mysql_sql.keys_sql(every, [text]))
        after = list(cursor.fetchall())
        connection.rollback()
    assert [row[0] for row in after] == [text]
    assert (after == before) is (case.name == "j")


@pytest.mark.parametrize("scheme", [leaves.IntegerLeaves("id", 7), leaves.HashLeaves(5)], ids=["ranges", "hashes"])
def test_leaves_agree(source: Source, every: Table, sink: str, scheme: leaves.LeafScheme) -> None:
    theirs = leaves.read_leaves(source.run(mysql_sql.digest_sql(every, scheme)))
    ours = leaves.read_leaves(source.spark.sql(spark_sql.digest_sql(every, scheme, sink)).collect())
    assert leaves.compare(theirs, ours) == leaves.LeafDiff(len(theirs), ())
    assert sum(leaf.n for leaf in theirs.values()) == row_count()
    assert len(theirs) > 3
    drilled = sorted(theirs)[:2]
    rows = source.run(mysql_sql.rows_sql(every, scheme, drilled))
    assert len(rows) == sum(theirs[leaf].n for leaf in drilled)
    mirrored = source.spark.sql(spark_sql.rows_sql(every, scheme, drilled, sink)).collect()
    assert leaves.compare_rows(rows, [tuple(r) for r in mirrored]) == leaves.RowDiff((), (), ())
    summed = leaves.merge_leaves([{0: leaves.row_leaf(h)} for _, h in rows])
    assert summed[0] == leaves.merge_leaves([{0: theirs[leaf]} for leaf in drilled])[0]


@pytest.mark.parametrize("scheme", [leaves.IntegerLeaves("id", 7), leaves.HashLeaves(5)], ids=["ranges", "hashes"])
def test_the_leaves_of_few_rows_agree(
    source: Source, every: Table, sink: str, lake: Lake, scheme: leaves.LeafScheme
) -> None:
    """Digested in memory by the reference, of rows that Spark wrote and PyIceberg reads."""
    theirs = leaves.read_leaves(source.run(mysql_sql.digest_sql(every, scheme)))
    _, namespace, name = sink.split(".")
    rows = lake.read_arrow(namespace, name)
    assert few.leaves(every, scheme, lambda: rows) == theirs
    wrong = rows.set_column(0, rows.schema.field(0), pc.add(rows.column(0), 1).cast(rows.schema.field(0).type))
    assert few.leaves(every, scheme, lambda: wrong) != theirs
    assert few.leaves(every, scheme, lambda: None) is None


def test_a_value_that_the_reference_cannot_take_is_left_to_spark() -> None:
    numbers = tables.table(tables.column("id", "bigint", nullable=False), tables.column("d", "double"), key=("id",))
    rows = pa.table({"id": [1], "d": [math.nan]})
    assert few.leaves(numbers, leaves.HashLeaves(1), lambda: rows) is None
    assert few.leaves(numbers, leaves.HashLeaves(1), lambda: rows.select(["id"])) is None
    assert few.leaves(numbers, leaves.HashLeaves(1), lambda: pa.table({"id": [1], "d": [0.5]})) is not None


# only Spark reads these: dates that are none
LEFT_TO_SPARK = {"da", "dan", "dt", "dtn", "dt6", "dt6n", "ts", "tsn"}


def test_few_rows_are_read_as_spark_reads_them(source: Source, every: Table, sink: str, lake: Lake) -> None:
    """Each column of every type by itself: the same values, or it is left to Spark."""
    _, namespace, name = sink.split(".")
    spark, left = lake.read_arrow(namespace, name), list[str]()
    by_id = {number: at for at, number in enumerate(spark.column("id").to_pylist())}
    with source.session() as session:
        for one in every.mirrored:
            alone = replace(every, columns=tuple({c.name: c for c in (every.column("id"), one)}.values()))
            read = read_few(session, alone, most_rows=1_000, most_bytes=1 << 30)
            if read is None:
                left.append(one.name)
                continue
            order = pa.array([by_id[number] for number in read.column("id").to_pylist()])
            theirs = spark.column(one.name).take(order).combine_chunks()
            ours = read.column(one.name).combine_chunks().cast(theirs.type)
            assert ours.equals(theirs), (one.name, _first_difference(ours, theirs))
    assert left == [one.name for one in every.mirrored if one.name in LEFT_TO_SPARK]
    with source.session() as session:
        assert read_few(session, every, most_rows=1_000, most_bytes=1 << 30) is None


def _first_difference(ours: pa.Array, theirs: pa.Array) -> Any:
    pairs_ = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
    return next(((one, other) for one, other in pairs_ if one != other), None)


def test_a_table_of_more_rows_or_bytes_is_not_few(source: Source, every: Table) -> None:
    alone = replace(every, columns=(every.column("id"),))
    with source.session() as session:
        assert read_few(session, alone, most_rows=row_count() - 1, most_bytes=1 << 30) is None
        rows = read_few(session, alone, most_rows=row_count(), most_bytes=1 << 30)
        assert rows is not None
        assert rows.num_rows == row_count()
        text = replace(every, columns=(every.column("id"), every.column("v")))
        assert read_few(session, text, most_rows=1_000, most_bytes=10) is None


def test_a_difference_is_found_from_leaf_to_key(source: Source, every: Table, sink: str) -> None:
    scheme = leaves.HashLeaves(4)
    wrong = (
        source.spark.table(sink)
        .where(f"id <> {row_id(2)}")
        .selectExpr(
            *(
                f"IF(id = {row_id(3)}, 'wrong', v) AS v" if c.name == "v" else quote_ident(c.name)
                for c in every.mirrored
            )
        )
    )
    name = view(wrong.unionByName(wrong.where(f"id = {row_id(4)}").withColumn("id", wrong.id * 0 + 4242)), "wrong")
    theirs = leaves.read_leaves(source.run(mysql_sql.digest_sql(every, scheme)))
    ours = leaves.read_leaves(source.spark.sql(spark_sql.digest_sql(every, scheme, name)).collect())
    unequal = leaves.compare(theirs, ours).unequal
    rows = source.run(mysql_sql.rows_sql(every, scheme, unequal))
    mirrored = source.spark.sql(spark_sql.rows_sql(every, scheme, unequal, name)).collect()
    diff = leaves.compare_rows(rows, [tuple(r) for r in mirrored])
    assert diff == leaves.RowDiff((str(row_id(2)),), ("4242",), (str(row_id(3)),))
    keys = view(source.spark.createDataFrame([(k,) for k in diff.keys], "key_text string"), "suspects")
    found = source.spark.sql(spark_sql.keys_sql(every, keys, name)).collect()
    assert sorted(row["key_text"] for row in found) == sorted(["4242", str(row_id(3))])


def doubles(count: int) -> list[float]:
    """Random bit patterns, so that all exponents come up; then numbers as people write them."""
    rng = random.Random(20261121)
    made: list[float] = []
    while len(made) < count // 2:
        value = struct.unpack("d", rng.randbytes(8))[0]
        if math.isfinite(value):
            made.append(value)
    return made + [
        round(rng.uniform(-1e6, 1e6), rng.randrange(8)) * 10.0 ** rng.randrange(-20, 20)
        for _ in range(count - len(made))
    ]


def floats(count: int) -> list[float]:
    rng = random.Random(7)
    made: list[float] = []
    while len(made) < count:
        value = struct.unpack("f", rng.randbytes(4))[0]
        if 1e-37 < abs(value) < 3e38:
            made.append(value)
    return made


def test_twenty_thousand_floating_point_numbers(source: Source) -> None:
    source.run("CREATE TABLE enc_agrees.numbers (id int PRIMARY KEY, d double, f float)")
    values = list(zip(doubles(20_000), floats(20_000), strict=True))
    rows = [f"({i}, {d!r}, {f!r})" for i, (d, f) in enumerate(values)]
    source.run(
        *(f"INSERT INTO enc_agrees.numbers VALUES {', '.join(rows[i : i + 2000])}" for i in range(0, len(rows), 2000))
    )
    table = source.table("numbers")
    for driver in DRIVERS:
        name = view(source.frame(table, driver), "numbers")
        read = {row["id"]: (row["d"], row["f"]) for row in source.spark.table(name).collect()}
        assert read == dict(enumerate(values)), driver
        ours = source.spark.sql(f"SELECT id, {spark_row_hash(table)} FROM {name}").collect()
        assert pairs(ours) == pairs(source.run(f"SELECT id, {mysql_sql.row_hash(table)} FROM enc_agrees.numbers")), (
            driver
        )


KEYS = {
    "text": ("k varchar(20)", ["'a'", "'A '", "'b|1'", "'ü'", "''", "'😀'", "'z\\\\'"]),
    "text_binary": ("k varchar(20) COLLATE utf8mb4_bin, l char(5)", ["'a', 'x'", "'A', ''", "'b|1', '1|b'"]),
    "bytes": ("k varbinary(20), l binary(2)", ["x'', x'00'", "x'00ff', x'01'", "x'7c', x'7c'"]),
    "decimal": ("k decimal(12,3)", ["1", "-0.001", "999999999.999"]),
    "wide": ("k decimal(40,3)", ["1", "-0.001", "123456789012345678901234567890.5"]),
    "double": ("k double, f float", ["0.1, 0.1", "1e100, -3.5", "-0e0, 1e-20"]),
    "dates": ("k date, l datetime(6), m timestamp(3)", ["'2020-01-01', '2020-01-01 00:00:00.000001', '2021-10-31 00:30:00.5'",
                                                        "'1970-01-01', '1970-01-01', '1970-01-02'", "0, 0, 0"]),
    "time": ("k time(6), y year", ["'-00:00:00.5', 1999", "'838:59:59', 0", "'12:00', 2000"]),
    "enum": ("k enum('b','a'), s set('x','y')", ["'b', 'x,y'", "'a', ''", "'a', 'y'"]),
    "bit": ("k bit(64), l bit(3)", ["18446744073709551615, 1", "0, 7"]),
    "unsigned": ("k bigint unsigned, l int", ["18446744073709551615, -1", "0, 0", "9223372036854775808, 5"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_written_alike_and_lead_back_to_their_rows(source: Source, kind: str) -> None:
    columns, rows = KEYS[kind]
    not_null = [f"{part} NOT NULL" for part in columns.replace(", ", ";").split(";")]
    names = ", ".join(part.split()[0] for part in not_null)
    source.run(
        f"CREATE TABLE enc_agrees.k_{kind} ({', '.join(not_null)}, v int, PRIMARY KEY ({names})) DEFAULT CHARSET utf8mb4",
        *(f"INSERT INTO enc_agrees.k_{kind} VALUES ({row}, {i})" for i, row in enumerate(rows)),
    )
    table = source.table(f"k_{kind}")
    assert ", ".join(table.key) == names
    scheme = leaves.HashLeaves(1)
    theirs = source.run(mysql_sql.rows_sql(table, scheme, [0]))
    ours = source.spark.sql(spark_sql.rows_sql(table, scheme, [0], view(source.frame(table), "keys"))).collect()
    assert sorted(theirs) == sorted(tuple(row) for row in ours)
    assert len(theirs) == len(rows)
    assert sorted(canonical.key_text(table, row) for row in python_rows(source.spark, table, "keys")) == sorted(
        key_text for key_text, _ in theirs
    )
    for key_text, h in theirs:
        assert (key_text, h) in source.run(mysql_sql.keys_sql(table, [key_text]))
        assert len(parse_key_text(table, key_text)) == len(table.key)
    plan = source.run(
        f"EXPLAIN FORMAT=TRADITIONAL SELECT v FROM {quote_table(table)} WHERE {key_predicate(table, [theirs[-1][0]])}"
    )
    assert plan[0][4] in {"const", "range", "eq_ref", "ref"}, plan


@pytest.mark.parametrize("kind", KEYS)
def test_chunks_of_one_row_each_visit_every_row(source: Source, kind: str) -> None:
    """Boundaries and predicates agree on the order of each kind of key, whatever its collation or labels."""
    columns, rows = KEYS[kind]
    not_null = [f"{part} NOT NULL" for part in columns.replace(", ", ";").split(";")]
    names = ", ".join(part.split()[0] for part in not_null)
    source.run(
        f"CREATE TABLE enc_agrees.c_{kind} ({', '.join(not_null)}, PRIMARY KEY ({names})) DEFAULT CHARSET utf8mb4",
        *(f"INSERT INTO enc_agrees.c_{kind} VALUES ({row})" for row in rows),
    )
    table = source.table(f"c_{kind}")
    seen: list[tuple[Any, ...]] = []
    chunk: Chunk | None = Chunk()
    while chunk is not None:
        found = source.run(boundary_sql(table, chunk.lo, 1))
        part = Chunk.from_json(json.loads(json.dumps(Chunk(chunk.lo, found[0] if found else None).to_json())))
        inside = source.run(f"SELECT * FROM {quote_table(table)} WHERE {chunk_predicate(table, part.lo, part.hi)}")
        assert len(inside) == (1 if found else 0)
        seen += inside
        chunk = Chunk(part.hi) if found else None
    assert sorted(seen, key=repr) == sorted(source.run(f"SELECT * FROM {quote_table(table)}"), key=repr)
    assert len(seen) == len(rows)


def test_case_only_differences_are_seen_under_a_case_insensitive_collation(source: Source) -> None:
    source.run("CREATE TABLE enc_agrees.ci (k varchar(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v varchar(9))")
    source.run("INSERT INTO enc_agrees.ci VALUES ('a', 'x')")
    table = source.table("ci")
    first = source.run(mysql_sql.keys_sql(table, ["1|a"]))
    source.run("UPDATE enc_agrees.ci SET v = 'X'")
    second = source.run(mysql_sql.keys_sql(table, ["1|a"]))
    source.run("UPDATE enc_agrees.ci SET k = 'A'")
    third = source.run(mysql_sql.keys_sql(table, ["1|a"]))
    assert first[0][0] == second[0][0] == "1|a"
    assert first[0][1] != second[0][1]
    assert third[0][0] == "1|A"


def test_tables_without_a_key_are_compared_as_multisets(source: Source) -> None:
    source.run("CREATE TABLE enc_agrees.bag (a int, b varchar(9))")
    source.run("INSERT INTO enc_agrees.bag VALUES (1, 'x'), (1, 'x'), (NULL, ''), (NULL, NULL), (2, '0')")
    table = source.table("bag")
    scheme = leaves.choose_scheme(table, 5, leaf_rows=2)
    name = view(source.frame(table), "bag")
    theirs = leaves.read_leaves(source.run(mysql_sql.digest_sql(table, scheme)))
    ours = leaves.read_leaves(source.spark.sql(spark_sql.digest_sql(table, scheme, name)).collect())
    assert theirs == ours
    assert sum(leaf.n for leaf in ours.values()) == 5
    source.run("DELETE FROM enc_agrees.bag WHERE a = 1 LIMIT 1", "INSERT INTO enc_agrees.bag VALUES (3, '')")
    rows = source.run(mysql_sql.rows_sql(table, scheme, range(3)))
    diff = leaves.compare_multisets([h for _, h in rows], hashes_before(source, table))
    assert (len(diff.missing), len(diff.ghosts)) == (1, 1)


def hashes_before(source: Source, table: Table) -> list[str]:
    rows = [(1, "x"), (1, "x"), (None, ""), (None, None), (2, "0")]
    frame = source.spark.createDataFrame(rows, "a int, b string")
    return [row[0] for row in frame.selectExpr(f"{spark_row_hash(table)} AS h").collect()]
