from __future__ import annotations

import hashlib
import json
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.decisions.compare import leaves
from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves, Leaf, RowDiff
from airflow_cdc.decisions.compare.part import leaves_part
from airflow_cdc.sources.mysql import encoding as mysql_sql
from airflow_cdc.spark_apps.compare import digest as spark_sql
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), column("v", "varchar(9)", charset="utf8mb4"), key=("id",))
BY_NAME = table(column("name", "varchar(9)", nullable=False, charset="utf8mb4"), key=("name",))
BAG = table(column("a", "int"))

hashes = st.binary(min_size=1, max_size=4).map(lambda b: hashlib.sha256(b).hexdigest())


def test_integer_keys_get_ranges_and_others_hashes() -> None:
    assert leaves.choose_scheme(ORDERS, 100_000, (1, 100_000)) == IntegerLeaves("id", 50_000)
    assert leaves.choose_scheme(ORDERS, 100_000) == HashLeaves(2)
    assert leaves.choose_scheme(BY_NAME, 100_001, (1, 5)) == HashLeaves(3)
    assert leaves.choose_scheme(BAG, 0) == HashLeaves(1)


@given(st.integers(1, 10**7), st.integers(-(2**63), 2**64), st.integers(0, 2**64))
def test_sparse_ids_do_not_make_more_leaves(rows: int, low: int, span: int) -> None:
    scheme = leaves.choose_scheme(ORDERS, rows, (low, low + span))
    assert isinstance(scheme, IntegerLeaves)
    # rounding towards zero makes at most one more at either end
    assert span // scheme.width + 2 <= rows // leaves.LEAF_ROWS + 3


@pytest.mark.parametrize("scheme", [IntegerLeaves("id", 7), HashLeaves(3)])
def test_scheme_json_round_trip(scheme: leaves.LeafScheme) -> None:
    assert leaves.scheme_from_json(json.loads(json.dumps(leaves.scheme_to_json(scheme)))) == scheme


def test_impossible_schemes_are_refused() -> None:
    with pytest.raises(SchemaError, match="leaves of 1 ids"):
        IntegerLeaves("id", 1)
    with pytest.raises(SchemaError, match="0 leaves"):
        HashLeaves(0)


@given(st.integers(2, 9), st.sets(st.integers(-40, 40)), st.sets(st.integers(-6, 6)))
def test_ranges_hold_exactly_the_rows_of_their_leaves(width: int, ids: set[int], some: set[int]) -> None:
    """BETWEEN on another SQL engine, against division towards zero."""
    where = mysql_sql.ROWS.leaves_where(ORDERS, IntegerLeaves("id", width), sorted(some))
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE t (id int)")
        db.executemany("INSERT INTO t VALUES (?)", [(i,) for i in ids])
        found = {row[0] for row in db.execute(f"SELECT id FROM t WHERE {where}")}
    assert found == {i for i in ids if int(i / width) in some}


def test_neighbouring_leaves_are_one_range() -> None:
    where = spark_sql.ROWS.leaves_where(ORDERS, IntegerLeaves("id", 10), [3, 2, 5])
    assert where == "`id` BETWEEN 20 AND 39 OR `id` BETWEEN 50 AND 59"
    assert mysql_sql.ROWS.leaves_where(ORDERS, IntegerLeaves("id", 10), []) == "FALSE"
    assert spark_sql.ROWS.leaves_where(BY_NAME, HashLeaves(3), []) == "FALSE"


def test_mysql_computes_the_hash_of_a_row_once() -> None:
    some = leaves_part(IntegerLeaves("id", 10), [1])
    assert mysql_sql.digest_sql(ORDERS, IntegerLeaves("id", 10), some).count("SHA2(") == 1
    assert " WHERE `id` BETWEEN 10 AND 19 GROUP BY 1" in mysql_sql.digest_sql(ORDERS, IntegerLeaves("id", 10), some)
    assert spark_sql.digest_sql(ORDERS, IntegerLeaves("id", 10), "lake.s.t").count("sha2(") == 1


def test_keys_become_conditions_on_the_key() -> None:
    assert mysql_sql.keys_sql(ORDERS, ["7", "-8"]).endswith(" WHERE `id` IN (7, -8)")
    assert mysql_sql.keys_sql(BY_NAME, ["3|a|1"]).endswith(" WHERE `name` IN (_utf8mb4 X'617c31')")
    assert mysql_sql.keys_sql(ORDERS, []).endswith(" WHERE FALSE")
    assert mysql_sql.keys_sql(BAG, []).endswith(" WHERE FALSE")
    with pytest.raises(SchemaError, match="not a row hash"):
        mysql_sql.keys_sql(BAG, ["' OR 1=1"])


@given(st.lists(st.tuples(st.integers(0, 3), hashes)), st.randoms())
def test_a_digest_does_not_depend_on_order_or_parts(rows: list[tuple[int, str]], rng: object) -> None:
    whole = leaves.merge_leaves([{leaf: leaves.row_leaf(h)} for leaf, h in rows])
    shuffled = list(rows)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    half = len(shuffled) // 2
    parts = [
        leaves.merge_leaves([{leaf: leaves.row_leaf(h)} for leaf, h in part])
        for part in (shuffled[:half], shuffled[half:])
    ]
    assert leaves.merge_leaves(parts) == whole
    assert all(0 <= leaf.lane2 < leaves.LANE for leaf in whole.values())
    totals = {leaf: sum(int(h[:16], 16) for at, h in rows if at == leaf) for leaf in whole}
    assert {leaf: found.lane1 * leaves.LANE + found.lane2 for leaf, found in whole.items()} == totals


@given(hashes, hashes)
def test_a_row_taken_out_leaves_the_rest(first: str, second: str) -> None:
    both = leaves.add_leaves(leaves.row_leaf(first), leaves.row_leaf(second))
    assert leaves.add_leaves(both, leaves.row_leaf(second), -1) == leaves.row_leaf(first)
    assert leaves.add_leaves(leaves.row_leaf(first), leaves.row_leaf(first), -1) == Leaf(0, 0, 0)


def test_the_same_change_on_two_rows_does_not_cancel() -> None:
    """XOR of checksums would: this is why sums are used."""
    before = leaves.merge_leaves([{0: leaves.row_leaf(hashlib.sha256(t).hexdigest())} for t in (b"a", b"b")])
    after = leaves.merge_leaves([{0: leaves.row_leaf(hashlib.sha256(t).hexdigest())} for t in (b"a1", b"b1")])
    assert leaves.compare(before, after).unequal == (0,)


def test_leaves_of_one_side_only_are_unequal() -> None:
    one, two = Leaf(1, 2, 3), Leaf(1, 2, 4)
    diff = leaves.compare({1: one, 2: one, 3: one}, {1: one, 2: two, 4: one})
    assert (diff.equal, diff.unequal) == (1, (2, 3, 4))


def test_driver_values_become_numbers() -> None:
    from decimal import Decimal

    assert leaves.read_leaves([(Decimal(3), 2, Decimal(5), 6)]) == {3: Leaf(2, 5, 6)}


@given(st.dictionaries(st.text(max_size=2), hashes), st.dictionaries(st.text(max_size=2), hashes))
def test_rows_compare_like_dicts(src: dict[str, str], sink: dict[str, str]) -> None:
    diff = leaves.compare_rows(src.items(), sink.items())
    assert set(diff.missing) == src.keys() - sink.keys()
    assert set(diff.ghosts) == sink.keys() - src.keys()
    assert set(diff.different) == {k for k in src.keys() & sink.keys() if src[k] != sink[k]}


def test_a_key_that_stands_twice_in_the_sink_is_a_ghost() -> None:
    diff = leaves.compare_rows([("1", "h")], [("1", "h"), ("1", "h")])
    assert diff == RowDiff((), ("1",), ())
    assert diff.keys == ("1",)


def test_inv_34_a_key_that_stands_twice_in_the_source_is_missing_once() -> None:
    assert leaves.compare_rows([("0", "a"), ("0", "b")], [("0", "b")]) == RowDiff(("0",), (), ())
    assert leaves.compare_rows([("0", "a"), ("0", "b")], [("0", "b"), ("0", "a")]) == RowDiff((), (), ())
    assert leaves.compare_rows([("0", "a"), ("0", "b")], [("0", "b"), ("0", "c")]) == RowDiff((), (), ("0",))


def test_multisets_count_copies() -> None:
    diff = leaves.compare_multisets(["a", "a", "b"], ["a", "b", "b", "c"])
    assert diff == RowDiff(("a",), ("b", "c"), ())
