"""The suite of all sources, answered by what real servers said."""

from tests.integration.test_source_contract import *  # noqa: F403
