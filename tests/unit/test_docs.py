"""The documentation says what is so: its snippets are files that work, its runbook has every problem, its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from airflow.dag_processing.dagbag import DagBag

from airflow_cdc.core.diagnosis import PROBLEMS
from airflow_cdc.registry import load_registry
from airflow_cdc.systems.mysql_grants import MARIADB_NEEDS, MYSQL_NEEDS, Need

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
INCLUDED = re.compile(r'--8<-- "([^"]+)"')


def included() -> set[Path]:
    return {ROOT / name for page in PAGES for name in INCLUDED.findall(page.read_text())}


def test_every_example_is_shown_somewhere_and_every_snippet_is_a_file() -> None:
    assert all(path.is_file() for path in included())
    assert {path for path in (ROOT / "examples").iterdir() if path.is_file()} <= included()


@pytest.mark.parametrize("path", sorted(path for path in included() if path.suffix == ".yaml"), ids=lambda p: p.name)
def test_a_registry_in_the_docs_is_valid(path: Path) -> None:
    assert load_registry(path)


def test_the_registry_of_the_readme_is_valid(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(pipelines:.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "pipelines.yaml").write_text(block)
    assert list(load_registry(tmp_path / "pipelines.yaml")) == ["shop"]


def test_the_dags_in_the_docs_load(airflow_db: Path, registry: Path) -> None:
    bag = DagBag(dag_folder=ROOT / "examples")
    assert bag.import_errors == {}
    assert {name: set(dag.task_ids) for name, dag in bag.dags.items()} == {
        "wait_for_position": {"wait"},
        "morning_diagnosis": {"diagnose_shop", "report_shop"},
    }


@pytest.mark.parametrize(("file", "needs"), [("grants.sql", MYSQL_NEEDS), ("grants_mariadb.sql", MARIADB_NEEDS)])
def test_the_grants_in_the_docs_are_all_that_is_needed(file: str, needs: tuple[Need, ...]) -> None:
    text = (ROOT / "examples" / file).read_text()
    granted = {name.strip() for names in re.findall(r"^GRANT (.+) ON", text, re.MULTILINE) for name in names.split(",")}
    assert granted == {"SELECT", *(need.privilege for need in needs)}


def test_every_problem_has_a_runbook_entry() -> None:
    headings = set(re.findall(r"^## (\w+)$", (ROOT / "docs" / "problems.md").read_text(), re.MULTILINE))
    assert {row.code for row in PROBLEMS} <= headings


def test_every_command_in_the_docs_exists() -> None:
    from airflow.cli import cli_parser

    text = (ROOT / "docs" / "how-to" / "commands.md").read_text()
    listed = re.findall(r"^\| `airflow (cdc [^`]+)`", text, re.MULTILINE)
    assert len(listed) >= 9
    assert all(cli_parser.get_parser().parse_args(line.split()).func for line in listed)


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {str(page.relative_to(ROOT / "docs")) for page in PAGES} == listed
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text())["strict"] is True
