"""The tests of tests/integration/postgres/test_session.py, answered by what real servers said."""

from tests.integration.postgres.test_session import *  # noqa: F403
