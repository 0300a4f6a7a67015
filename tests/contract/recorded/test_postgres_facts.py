"""The tests of tests/integration/postgres/test_facts.py, answered by what real servers said."""

from tests.integration.postgres.test_facts import *  # noqa: F403
