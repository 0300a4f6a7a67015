"""The fault of the demo on a real server: made twice, in one shop."""

from __future__ import annotations

from contextlib import closing

import pytest

import stack
from stack.mysql import MySqlSettings
from stack.shop import dataset
from stack.shop.gap import make_gap

pytestmark = pytest.mark.slow


def test_a_second_gap_deletes_other_rows_and_alters_nothing(servers: stack.Stack) -> None:
    """On a server of its own: it purges the log, which others read."""
    settings = MySqlSettings(name="mysql-gap", server_id=109)
    server = servers.mysql.get(settings.name) or servers.add_mysql(settings)
    with closing(server.connect()) as admin:
        dataset.create(admin)
        dataset.fill(admin, 20_000)
        first = make_gap(admin)
        second = make_gap(admin, alter=False, shift=1)
    assert len(first.purged) >= 3
    assert second.purged
    assert all(first.deletes.values()), first.deletes
    assert all(second.deletes.values()), second.deletes
    assert first.changes["customers"] > first.deletes["customers"]
    assert second.changes["customers"] == second.deletes["customers"]
