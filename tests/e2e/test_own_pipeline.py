"""A new user's own pipeline on a second MySQL server, by the documented files alone: nothing is done that they do not say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from demo.check import check
from stack.mysql import MySqlServer, MySqlSettings
from tests.e2e.conftest import Shop

EXAMPLES = Path(__file__).parents[2] / "examples"
TABLES = ["people", "notes"]
THEIRS = (
    # our own servers have users of these names already
    "DROP USER 'cdc'@'%', 'debezium'@'%'",
    "CREATE DATABASE crm",
    "CREATE TABLE crm.people (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), born DATE, UNIQUE (name))",
    "CREATE TABLE crm.notes (person INT, line SMALLINT, text VARCHAR(200), PRIMARY KEY (person, line))",
    "INSERT INTO crm.people (name, born) VALUES ('Ada', '1815-12-10'), ('Grace 🚢', '1906-12-09'), ('Edsger', NULL)",
    "INSERT INTO crm.notes VALUES (1, 1, 'engine'), (1, 2, 'notes  '), (2, 1, '')",
)
PASSWORDS = {"choose-one": "of-cdc-7f3a", "choose-another": "of-debezium-91c2"}
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def theirs(shop: Shop) -> Iterator[MySqlServer]:
    """The user's own server, with rows in it and the users of own-pipeline.sql."""
    server = shop.world.stack.add_mysql(MySqlSettings("theirs", server_id=301))
    sql = (EXAMPLES / "own-pipeline.sql").read_text()
    for example, password in PASSWORDS.items():
        sql = sql.replace(f"'{example}'", f"'{password}'")
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for statement in (*THEIRS, *filter(None, map(str.strip, sql.split(";")))):
            cursor.execute(statement)
    yield server
    shop.worker.call("DELETE", "/connectors/crm")


def test_from_a_database_to_a_proven_copy(shop: Shop, theirs: MySqlServer) -> None:
    addresses = {
        "MYSQL": f"{theirs.host}:{theirs.port}",
        "CONNECT": shop.worker.url,
        "KAFKA": shop.world.bootstrap,
        "CDC_MYSQL_PASSWORD": PASSWORDS["choose-one"],
        "DEBEZIUM_PASSWORD": PASSWORDS["choose-another"],
    }
    done = subprocess.run(
        ["sh", str(EXAMPLES / "own-pipeline.sh")],
        env={**shop.server.environment, **addresses},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    transcript = done.stdout + done.stderr
    Path("build").mkdir(exist_ok=True)
    Path("build/own-pipeline.txt").write_text(transcript)
    assert done.returncode == 0, transcript[-4000:]
    named = [re.search(word, transcript) is not None for word in ("TABLE_ADDED", "MATCH", "HEALTHY")]
    assert all(named), transcript[-4000:]
    assert not any(password in transcript for password in PASSWORDS.values())
    admin = {"host": theirs.host, "port": theirs.port, "user": theirs.user, "password": theirs.password}
    assert all(found.equal for found in check(admin, shop.world.lake, "crm", "crm", TABLES))
