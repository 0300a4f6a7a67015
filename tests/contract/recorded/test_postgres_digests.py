"""The tests of tests/integration/postgres/test_digests.py, answered by what real servers said."""

from tests.integration.postgres.test_digests import *  # noqa: F403
