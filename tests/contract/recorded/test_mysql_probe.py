"""The tests of tests/integration/test_mysql_probe.py, answered by what a real server said."""

import pytest

from stack.mysql import MySqlServer
from tests.integration.test_mysql_probe import *  # noqa: F403


@pytest.fixture  # type: ignore[no-redef]
def server(mysql: MySqlServer) -> MySqlServer:
    """A server that others use as well; what happened before is on the tape."""
    return mysql
