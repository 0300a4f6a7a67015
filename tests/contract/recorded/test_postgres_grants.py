"""The tests of tests/integration/postgres/test_grants.py, answered by what real servers said."""

from tests.integration.postgres.test_grants import *  # noqa: F403
