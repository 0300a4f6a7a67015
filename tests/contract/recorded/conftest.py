"""The servers of these tests are tapes (tape.py): a real one answered once, and what it said is played back.

The tests are those of tests/integration that ask a database alone; there they run on the real server. `make recordings` records them again
(CDC_RECORD=1), and keeps those that can be played: no thread of their own, no restarted server, nothing that differs from run to run.
"""

from __future__ import annotations

import hashlib
import os
import random
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pytest

from stack.mysql import MySqlServer, MySqlSettings
from stack.postgres import PostgresServer, PostgresSettings
from tests.contract.recorded.shelf import Server, Shelf, Take
from tests.contract.recorded.tape import MySql, Postgres, Wire, playing, recording
from tests.integration.conftest import WITH_GTIDS, WITHOUT_GTIDS, databases  # noqa: F401 - a fixture
from tests.integration.postgres.conftest import at, database, session  # noqa: F401 - fixtures

if TYPE_CHECKING:
    import stack

HERE: Final = Path(__file__).parent
RECORDS: Final = "CDC_RECORD" in os.environ
MAKERS: Final[dict[str, MySqlSettings | PostgresSettings]] = {
    "mysql": WITH_GTIDS,
    "mysql_nogtid": WITHOUT_GTIDS,
    "mariadb_server": MySqlSettings(name="mariadb", server_id=103, series="mariadb", max_binlog_size=4194304),
    "postgres15": PostgresSettings(name="pg15", series="15"),
    "postgres18": PostgresSettings(name="pg18", series="18"),
}
# several clients at once, or minutes
NOT_RECORDED: Final = ("its_load", "a_thousand_files", "the_forecast_says")
_PASSED: Final = pytest.StashKey[bool]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only what was recorded can be played; the others are asked of real servers alone, in tests/integration."""
    if RECORDS:
        items[:] = [item for item in items if not any(one in item.name for one in NOT_RECORDED)]
        return
    ours = [item for item in items if HERE in item.path.parents and item.path.name != "test_tape.py"]
    unknown = [item for item in ours if name_of(item) not in Shelf.of(item.path).takes]
    config.hook.pytest_deselected(items=unknown)
    items[:] = [item for item in items if item not in unknown]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def pytest_sessionfinish() -> None:
    if RECORDS:
        Shelf.write_all()


@pytest.fixture(autouse=True)
def names(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that tests and product make up are the same ones whenever the test runs."""
    numbers = count(1)

    def uuid4() -> uuid.UUID:
        text = f"{request.node.name} {next(numbers)}"
        return uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)

    monkeypatch.setattr(uuid, "uuid4", uuid4)
    random.seed(request.node.name)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """The real servers, to record from."""
    import stack

    with stack.start(tmp_path_factory.mktemp("recorded") / "s", services=()) as started:
        yield started


@pytest.fixture
def server_of(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Server]]:
    """A server by its name in MAKERS, behind a proxy that records, or as a player."""
    shelf, take, wrong = Shelf.of(request.path), Take(), list[str]()
    with ExitStack() as opened:

        def recorded(name: str) -> Server:
            server = shelf.servers[name] = _real(request.getfixturevalue("real"), MAKERS[name])
            return _at(server, opened.enter_context(recording(_wire(server), server.port, take.talks_with(name))))

        def played(name: str) -> Server:
            server = shelf.servers[name]
            talks = shelf.takes[name_of(request.node)].talks_with(name)
            return _at(server, opened.enter_context(playing(_wire(server), talks, wrong)))

        yield recorded if RECORDS else played
    if RECORDS and request.node.stash.get(_PASSED, False):
        shelf.takes[name_of(request.node)] = take
    assert not wrong, wrong[0]


def name_of(item: pytest.Item) -> str:
    """What a test is called within its file."""
    return item.nodeid.partition("::")[2]


def _at(server: Server, port: int) -> Server:
    return replace(server, port=port)


def _wire(server: Server) -> Wire:
    return Postgres() if isinstance(server, PostgresServer) else MySql()


def _real(running: stack.Stack, wanted: MySqlSettings | PostgresSettings) -> Server:
    """A running server, started when it is first asked for."""
    if isinstance(wanted, MySqlSettings):
        return running.mysql.get(wanted.name) or running.add_mysql(wanted)
    if wanted.name not in running.postgres:
        made = running.add_postgres(wanted)
        hba = Path(made.folder) / "data" / "pg_hba.conf"
        # what SCRAM says has a random part
        hba.write_text(hba.read_text().replace("scram-sha-256", "password"))
        made.execute("SELECT pg_reload_conf()")
    return running.postgres[wanted.name]


def _mysql(server_of: Callable[[str], Server], name: str) -> MySqlServer:
    server = server_of(name)
    assert isinstance(server, MySqlServer)
    return server


@pytest.fixture
def mysql(server_of: Callable[[str], Server]) -> MySqlServer:
    """MySQL with GTIDs."""
    return _mysql(server_of, "mysql")


@pytest.fixture
def mysql_nogtid(server_of: Callable[[str], Server]) -> MySqlServer:
    """MySQL without."""
    return _mysql(server_of, "mysql_nogtid")


@pytest.fixture
def mariadb_server(server_of: Callable[[str], Server]) -> MySqlServer:
    """MariaDB."""
    return _mysql(server_of, "mariadb_server")


@pytest.fixture(params=["15", "18"])
def server(request: pytest.FixtureRequest, server_of: Callable[[str], Server]) -> PostgresServer:
    """The oldest and the newest PostgreSQL."""
    made = server_of(f"postgres{request.param}")
    assert isinstance(made, PostgresServer)
    return made


@pytest.fixture
def newest(server_of: Callable[[str], Server]) -> PostgresServer:
    """The newest PostgreSQL alone."""
    made = server_of("postgres18")
    assert isinstance(made, PostgresServer)
    return made


@pytest.fixture
def servers(newest: PostgresServer) -> SimpleNamespace:
    """Of a running stack, the one server that a test takes from it here."""
    return SimpleNamespace(postgres={"postgres": newest})
