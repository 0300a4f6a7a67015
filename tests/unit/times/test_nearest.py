"""`make check` runs the tests that are nearest to what was changed."""

from __future__ import annotations

from tests.times.nearest import chosen, distances, leading_to, module_of

IMPORTERS = {"a": ["b", "c"], "b": ["d"], "c": [], "d": ["a"], "apart": []}


def test_a_distance_is_the_shortest_way_and_a_circle_ends() -> None:
    assert distances(IMPORTERS, ["a"]) == {"a": 0, "b": 1, "c": 1, "d": 2}


def test_the_nearest_run_until_the_time_is_used_up() -> None:
    files = {"far": 3, "near": 1, "dear": 1, "next": 2}
    assert chosen(files, {"near": 4, "dear": 30, "next": 5, "far": 5}, budget=10) == ["near", "next"]


def test_one_runs_whatever_it_takes() -> None:
    assert chosen({"long": 1}, {"long": 100}, budget=10) == ["long"]


def test_a_package_is_named_as_it_is_imported() -> None:
    assert [module_of(file) for file in ("airflow_cdc/core/text.py", "airflow_cdc/core/__init__.py")] == [
        "airflow_cdc.core.text",
        "airflow_cdc.core",
    ]


def test_a_changed_module_leads_to_its_tests_and_a_changed_page_to_those_that_name_it() -> None:
    files = leading_to(["tests/times/nearest.py", "docs/connector-failed.md"])
    assert files["tests/unit/times/test_nearest.py"] == 1
    assert files["tests/unit/docs/test_first_aid.py"] == 1
    assert "tests/unit/times/test_order.py" not in files
