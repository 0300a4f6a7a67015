"""The tests of tests/integration/postgres/test_snapshot.py, answered by what real servers said."""

from tests.integration.postgres.test_snapshot import *  # noqa: F403
