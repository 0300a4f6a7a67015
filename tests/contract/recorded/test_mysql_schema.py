"""The tests of tests/integration/test_mysql_schema.py, answered by what a real server said."""

from tests.integration.test_mysql_schema import *  # noqa: F403
