"""The tests of tests/integration/postgres/test_problems.py, answered by what real servers said."""

from tests.integration.postgres.test_problems import *  # noqa: F403
