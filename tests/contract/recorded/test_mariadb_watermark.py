"""The tests of tests/integration/mariadb/test_watermark.py, answered by what a real server said."""

from tests.integration.mariadb.conftest import server, source, table  # noqa: F401
from tests.integration.mariadb.test_watermark import *  # noqa: F403

pytestmark: list[object] = []  # type: ignore[no-redef]  # no server is fetched here, which is what is slow
