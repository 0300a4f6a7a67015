"""The tests of tests/integration/test_mysql_source.py, answered by what a real server said."""

from tests.integration.test_mysql_source import *  # noqa: F403
