"""The tests of tests/integration/postgres/test_types.py, answered by what real servers said."""

from tests.integration.postgres.test_types import *  # noqa: F403
