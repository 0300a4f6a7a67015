"""Hudi on a Spark of its own: both kinds of table are written and read, beside the pyspark of this process."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from stack.errors import StackError
from stack.hudi import HudiSpark, python, start_hudi
from stack.versions import SPARK_OF_HUDI
from tests.integration.hudi.tables import create


@pytest.mark.parametrize("kind", ["cow", pytest.param("mor", marks=pytest.mark.slow)])
def test_a_table_is_written_changed_replaced_and_read(hudi: HudiSpark, hudi_folder: Path, kind: str) -> None:
    table = create(hudi, hudi_folder, kind)
    hudi.sql(f"INSERT INTO {table.name} SELECT id, concat('a', id), 1 FROM range(100)")
    hudi.sql(f"UPDATE {table.name} SET a = 'changed', pos = 2 WHERE id = 5")
    hudi.sql(f"DELETE FROM {table.name} WHERE id >= 10")
    assert table.rows() == {**{i: (f"a{i}", 1) for i in range(10)}, 5: ("changed", 2)}
    hudi.sql(f"INSERT OVERWRITE TABLE {table.name} SELECT id, 'new', 3 FROM range(5, 8)")
    assert table.rows() == dict.fromkeys(range(5, 8), ("new", 3))
    assert table.timeline()[-1][1] == "replacecommit"


def test_its_spark_is_not_ours(hudi: HudiSpark) -> None:
    assert hudi.sql("SELECT version()")[0][0].startswith(SPARK_OF_HUDI)
    assert not pyspark.__version__.startswith(SPARK_OF_HUDI)
    assert Path(pyspark.__file__).is_relative_to(python().parents[1]) is False


def test_what_spark_says_is_the_error_and_the_session_goes_on(hudi: HudiSpark) -> None:
    with pytest.raises(StackError, match="TABLE_OR_VIEW_NOT_FOUND"):
        hudi.sql("SELECT * FROM no_such_table")
    assert hudi.sql("SELECT 1") == [[1]]


@pytest.mark.slow
def test_a_killed_session_is_an_error_not_a_hang(tmp_path: Path) -> None:
    session = start_hudi(tmp_path, tmp_path / "spark.log")
    session.kill()
    with pytest.raises(StackError, match="has ended"):
        session.sql("SELECT 1")
    session.stop()
