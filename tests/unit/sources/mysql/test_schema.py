from __future__ import annotations

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.sources.mysql.schema import parse_labels, read_table_defs


@pytest.mark.parametrize(
    ("column_type", "labels"),
    [
        ("enum('a')", ("a",)),
        ("enum('a','b''s','')", ("a", "b's", "")),
        (r"enum('b\\c','n\nl','q''')", ("b\\c", "n\nl", "q'")),
        ("set('x,y','(z)',' lead')", ("x,y", "(z)", " lead")),
        ("enum('),(''')", ("),('",)),
    ],
)
def test_labels_are_read_from_the_type(column_type: str, labels: tuple[str, ...]) -> None:
    assert parse_labels(column_type) == labels


def test_no_tables_are_no_question() -> None:
    assert read_table_defs(None, []) == {}  # type: ignore[arg-type]


def test_a_name_without_a_schema_is_refused() -> None:
    with pytest.raises(SourceError, match="'orders' is not a table name"):
        read_table_defs(None, ["orders"])  # type: ignore[arg-type]
