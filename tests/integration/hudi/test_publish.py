"""A table replaced by one insert_overwrite_table: what other processes read meanwhile, and after a kill (ADR 0017)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.hudi import HudiSpark
from tests.bench import hudi_publish
from tests.bench.hudi_publish import Bench, kill_at, one_commit, reading
from tests.integration.hudi.tables import create

KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A reader in a process of its own."""
    made = Bench.start(tmp_path_factory.mktemp("publish"))
    yield made
    made.reader.stop()


@KINDS
def test_the_commit_that_replaces_a_table_holds_its_stamp(hudi: HudiSpark, hudi_folder: Path, kind: str) -> None:
    table = create(hudi, hudi_folder, kind)
    hudi.sql(f"INSERT INTO {table.name} VALUES (1, 'old', 1), (2, 'old', 1)")
    table.stamped("SELECT 2L AS id, 'new' AS a, 2L AS pos", "insert_overwrite_table", "W7")
    assert (table.rows(), table.stamps()) == ({2: ("new", 2)}, ["W7"])


@pytest.mark.slow
@KINDS
def test_readers_see_the_old_table_and_then_the_new_one(bench: Bench, hudi: HudiSpark, kind: str) -> None:
    table = bench.table(hudi, kind)
    with reading(bench, table) as seen:
        one_commit(hudi, table)
    assert [its.order for its in seen.values()] == [["old", "new"]] * len(hudi_publish.QUERIES[kind])


@pytest.mark.slow
@KINDS
def test_a_table_rewritten_in_place_is_read_half_way(bench: Bench, hudi: HudiSpark, kind: str) -> None:
    """The way that is not taken: with this the test above is known to see a mixture where there is one."""
    table = bench.table(hudi, kind)
    with reading(bench, table) as seen:
        hudi_publish.in_place(hudi, table)
    assert any(state.startswith("mixture") for its in seen.values() for state in its.order)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize(
    ("moment", "after"), [(".replacecommit.inflight", ["old"]), (".replacecommit", ["old", "new"])]
)
def test_a_killed_publish_is_whole_or_nothing_and_can_be_repeated(
    bench: Bench, hudi: HudiSpark, kind: str, moment: str, after: list[str]
) -> None:
    writer = bench.session("killed")
    table = bench.table(writer, kind)
    with reading(bench, table) as seen:
        kill_at(writer, table, moment)
    writer.stop()
    assert [its.order for its in seen.values()] == [after] * len(seen)
    with reading(bench, table) as again:
        one_commit(hudi, table)
    assert {its.order[-1] for its in again.values()} == {"new"}
    assert not [state for its in again.values() for state in its.order if state not in ("old", "new")]
