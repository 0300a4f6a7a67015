"""Seeds of the adversary, with every switch but those of known.py: nothing that the product calls applied or MATCH may differ."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversary.known import KNOWN
from tests.adversary.story import run_seed
from tests.adversary.world import Servers, servers

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

SEEDS = (13, 23, pytest.param(35, marks=pytest.mark.slow))  # a gap, an apply, a repair; flattened, JSON Schema, Avro
TAMPERED = 13
ROUNDS = 1
SEED_SECONDS = 600.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers(tmp_path_factory.mktemp("adversary"), os.environ.get("CDC_TEST_STACK", ""), formats=True) as running:
        yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_called_applied_or_match_is_equal(world: Servers, seed: int, tmp_path: Path) -> None:
    deadline = time.monotonic() + SEED_SECONDS
    result = run_seed(world, seed, tmp_path, without=frozenset(KNOWN), rounds=ROUNDS, deadline=deadline)
    assert result.findings == []
    assert result.compared >= 3
    assert result.operations > 20


def test_a_row_that_is_changed_behind_the_products_back_is_a_failure(world: Servers, tmp_path: Path) -> None:
    """The check itself: a seed whose sink is tampered with after its apply fails, and names the table."""
    deadline = time.monotonic() + SEED_SECONDS
    without = frozenset(KNOWN)
    result = run_seed(world, TAMPERED, tmp_path, without=without, rounds=0, deadline=deadline, tamper=True)
    assert result.failed
    assert {finding.kind for finding in result.findings} == {"difference"}
