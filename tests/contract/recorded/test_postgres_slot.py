"""The tests of tests/integration/postgres/test_slot.py, answered by what real servers said."""

from tests.integration.postgres.test_slot import *  # noqa: F403
