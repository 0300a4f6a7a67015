"""`python -m tests.integration.canal.captured`: real messages of Canal → tests/data/canal-messages.json.

One database with every kind of event, read by a Canal server per pair of settings: flat JSON or protobuf, with and without
GTIDs. Keys and values are base64.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import stack
from airflow_cdc.core.errors import CdcError
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.canal import CanalServer, CanalSettings, make_canal
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.every_type import LOAD_MODE

FILE = Path(__file__).parents[2] / "data" / "canal-messages.json"
NAME = "shop"
DDL = ("CREATE", "ALTER", "TRUNCATE", "RENAME", "DROP")
STATEMENTS = (
    "CREATE TABLE items (id bigint PRIMARY KEY, name varchar(40), qty int)",
    "CREATE TABLE events (id bigint, name varchar(40), qty int)",
    "INSERT INTO items VALUES (1, 'a', 10), (2, NULL, NULL), (3, 'c', 3)",
    "UPDATE items SET qty = qty + 1",
    "UPDATE items SET name = NULL WHERE id = 1",
    "UPDATE items SET id = id + 100 WHERE id = 3",
    "DELETE FROM items WHERE id <= 2",
    "BEGIN",
    "INSERT INTO items VALUES (5, 'e', 5)",
    "UPDATE items SET qty = 6 WHERE id = 5",
    "INSERT INTO events VALUES (1, 'x', 1), (1, 'x', 1)",
    "UPDATE items SET qty = 7 WHERE id = 5",
    "COMMIT",
    "UPDATE events SET qty = 2 LIMIT 1",
    "DELETE FROM events LIMIT 1",
    "REPLACE INTO items VALUES (5, 'replaced', 8)",
    "ALTER TABLE items ADD COLUMN more int DEFAULT 7",
    "INSERT INTO items VALUES (6, 'f', 6, 1)",
    "TRUNCATE TABLE events",
    "RENAME TABLE events TO happened",
    "CREATE INDEX by_name ON items (name)",
    "DROP TABLE happened",
)
# name of the server → whether its messages are flat JSON, and whether it follows GTIDs
PAIRS = {"flat": (True, False), "flat_gtid": (True, True), "protobuf": (False, False), "protobuf_gtid": (False, True)}


def write(server: MySqlServer, wait: Callable[[str], None]) -> None:
    """All that the messages tell. Canal asks the server how a table is *now*, so it must have read on before a change."""
    with closing(server.connect(database=NAME)) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00'", [LOAD_MODE])
        connection.autocommit(True)
        cursor.execute("CREATE TABLE marks (id int PRIMARY KEY, mark varchar(40))")
        for number, statement in enumerate(STATEMENTS):
            cursor.execute(statement)
            if statement.startswith(DDL) or statement == "COMMIT":
                cursor.execute("INSERT INTO marks VALUES (%s, %s)", [number, mark := f"mark {number}."])
                wait(mark)


def messages(kafka: str, topic: str, mark: str) -> list[dict[str, Any]]:
    """The records of the topic, once the one with the mark is there."""
    topics = KafkaTransport(KafkaEndpoint(kafka))

    def all_of_them() -> list[Any] | None:
        records = topics.records(topic) if topics.topic_states([topic]) else []
        return list(records) if any(mark.encode() in (record.value or b"") for record in records) else None

    records: list[Any] = wait_until(all_of_them, timeout=60, what=f"Canal to send all to {topic}")
    return [{"offset": r.offset, "key": _text(getattr(r, "key", None)), "value": _text(r.value)} for r in records]


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def main() -> int:
    """Write the file anew."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, captured = Path(temporary), {}
        with stack.start(folder / "stack", ("kafka", "mysql")) as running:
            server, broker = running.mysql["mysql"], running.kafka
            assert broker is not None
            server.execute(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
            file, position, *_ = server.execute("SHOW MASTER STATUS")[0]
            ((executed,),) = server.execute("SELECT @@GLOBAL.gtid_executed")
            address, start = f"{server.host}:{server.port}", (str(file), int(position))
            for pair, (flat, by_gtid) in PAIRS.items():
                more = {"canal.instance.filter.regex": rf"{NAME}\..*"}
                if by_gtid:
                    more |= {"canal.instance.gtidon": "true", "canal.instance.master.gtid": str(executed)}
                sends = {"canal.mq.flatMessage": str(flat).lower()}
                make_canal(
                    folder / pair,
                    CanalSettings(pair, address, server.debezium, broker.bootstrap, pair, start, "", more, sends),
                )

            servers = {pair: CanalServer(folder / pair, pair).start() for pair in PAIRS}

            def wait(mark: str) -> None:
                for pair in PAIRS:
                    captured[pair] = messages(broker.bootstrap, pair, mark)

            try:
                write(server, wait)
            except CdcError:
                for pair, canal in servers.items():
                    print(pair, "\n".join(canal.log.read_text().splitlines()[-40:]), file=sys.stderr)
                raise
            finally:
                for canal in servers.values():
                    canal.stop()
            version = server.version
    FILE.write_text(json.dumps({"canal": "1.1.7", "mysql": version, "messages": captured}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
