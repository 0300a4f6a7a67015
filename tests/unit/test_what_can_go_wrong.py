"""The page about what can go wrong names every invariant, and only tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.paths import ROOT

PAGE = (ROOT / "docs" / "what-can-go-wrong.md").read_text()
# no test of their own: what is not there yet
WITHOUT_A_TEST: set[int] = set()


def existing() -> set[str]:
    """Also the methods of a suite that other files inherit."""
    sources = [*(ROOT / "tests").rglob("test_*.py"), ROOT / "tests" / "contract" / "control_store.py"]
    return {name for path in sources for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("number", range(1, 49))
def test_each_invariant_has_its_lines_with_tests_of_its_number(number: int) -> None:
    lines = re.findall(rf"^\| {number} \|.*$", PAGE, re.MULTILINE)
    assert lines
    named = re.findall(r"`(test_\w+)`", "".join(lines))
    assert all(name.startswith(f"test_inv_{number:02d}_") for name in named), named
    assert bool(named) is (number not in WITHOUT_A_TEST)


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named - existing() == set()


def test_no_two_lines_rest_on_the_same_tests() -> None:
    """Two texts of one line, as a merge leaves them."""
    lines = [re.findall(r"`(test_\w+)`", line) for line in PAGE.splitlines() if line.startswith("|")]
    sets = [frozenset(names) for names in lines if names]
    assert [sorted(names) for names in set(sets) if sets.count(names) > 1] == []
