"""What the walks of pages need of a page is on it: a walk itself takes many minutes, and is no part of `make test`."""

from __future__ import annotations

from unittest.mock import MagicMock

from tests.e2e.test_canal_page import Theirs, of_the_page


def test_the_walk_of_canals_page_replaces_nothing_that_the_page_does_not_have() -> None:
    """An address that is no longer on the page may have been replaced by one that the walk then takes as it is."""
    shown = "\n".join(text for _, _, text in of_the_page())
    assert [word for word in Theirs(*(MagicMock() for _ in range(5))).words() if word not in shown] == []
