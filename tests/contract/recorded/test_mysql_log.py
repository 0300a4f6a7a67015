"""The tests of tests/integration/test_mysql_log.py, answered by what a real server said."""

from tests.integration.test_mysql_log import *  # noqa: F403
