"""How an event is written is known in one room: outside it no code holds the words of an envelope, or a registry's first byte."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.paths import ROOT

# told from anything else by themselves; `before` and `after` only beside each other, and outside the connectors beside `op`
TELLING: Final = frozenset({"payload", "__deleted", b"\0"})
CONNECTORS: Final = "airflow_cdc/connectors/"
ROOMS: Final = (
    "airflow_cdc/events/",
    "airflow_cdc/connectors/debezium/events/",
    "airflow_cdc/connectors/canal/events/",
    "airflow_cdc/testing/",  # makes events for whoever tests a connector of their own
)
# file → why it may know them, although it decodes no event
ELSEWHERE: Final = {
    "airflow_cdc/connectors/debezium/flattening.py": "names the field that a setting adds; rows are opened in events/flattened.py",
    "airflow_cdc/connectors/debezium/forms.py": "says in words how a record of a converter that nobody can see looks, and reads none",
    "airflow_cdc/connectors/debezium/schema_changes.py": "reads the schema history, which no converter writes",
    "airflow_cdc/connectors/debezium/config.py": "refuses a key whose columns cannot be told from a schema block",
    "airflow_cdc/sinks/iceberg_changelog/commits.py": "reads what a sink connector writes of its own files, and no event",
    "spark_apps/adapters/iceberg_changelog.py": "reads the columns of a table, as the sink connector names them, and no event",
}
# read records that the one decoder made, whose columns have these names
READS_DECODED: Final = frozenset({"spark_apps/apply/changes.py", "spark_apps/compare/tail.py"})


def constants(source: str) -> set[object]:
    """The texts and bytes in a program, its docstrings aside."""
    tree = ast.parse(source)
    said = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and n not in said}


def strangers(root: Path) -> Iterator[tuple[str, frozenset[object]]]:
    """Files outside the rooms that hold the words of an envelope."""
    for folder in ("airflow_cdc", "spark_apps"):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            found = constants(path.read_text()) & TELLING
            images = {"before", "after"} if name.startswith(CONNECTORS) else {"before", "after", "op"}
            envelope = images <= constants(path.read_text())
            if (found or envelope) and not name.startswith((*ROOMS, "airflow_cdc/spark_apps/")):
                yield name, frozenset(found)


def test_nobody_else_knows_how_an_event_is_written() -> None:
    assert {name for name, _ in strangers(ROOT)} == ELSEWHERE.keys() | READS_DECODED
    assert all(ELSEWHERE.values())


@pytest.mark.parametrize(
    "source",
    ['row["payload"]', 'x = "__deleted"', 'data[:1] == b"\\0"', 'row["op"], row["before"], row["after"]'],
)
def test_the_rule_sees_what_it_forbids(tmp_path: Path, source: str) -> None:
    place = tmp_path / "spark_apps" / "apply"
    place.mkdir(parents=True)
    (tmp_path / "airflow_cdc").mkdir()
    (place / "new.py").write_text(f'"""Of a payload."""\n{source}\n')
    assert [name for name, _ in strangers(tmp_path)] == ["spark_apps/apply/new.py"]


def test_a_connector_has_both_images_in_its_room_alone(tmp_path: Path) -> None:
    for name in ("spark_apps/apply", "airflow_cdc/connectors/new", "airflow_cdc/connectors/canal/events"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "packets.py").write_text('ROW = {"before": 1, "after": 2}\n')
    assert [name for name, _ in strangers(tmp_path)] == ["airflow_cdc/connectors/new/packets.py"]
