"""Public configurations: the position is judged whatever their events look like."""

from __future__ import annotations

import json

import pytest

from tests.reach.__main__ import FILE, judged

ENTRIES = json.loads(FILE.read_text())


@pytest.mark.parametrize("entry", ENTRIES, ids=[f"{n}-{entry['id']}" for n, entry in enumerate(ENTRIES)])
def test_inv_40_a_public_configuration_is_diagnosed_rightly_in_every_scene(entry: dict[str, object]) -> None:
    assert judged(entry)["wrong"] == []


def test_what_is_refused_for_rows_is_listed_with_its_reason() -> None:
    results = [judged(entry) for entry in ENTRIES]
    assert all(bool(one["why"]) == (one["rows"] == "refused") for one in results)
    assert 0 < sum(one["rows"] == "followed" for one in results) < len(results)
