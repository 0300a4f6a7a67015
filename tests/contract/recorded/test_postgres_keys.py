"""The tests of tests/integration/postgres/test_keys.py, answered by what real servers said."""

from tests.integration.postgres.test_keys import *  # noqa: F403
