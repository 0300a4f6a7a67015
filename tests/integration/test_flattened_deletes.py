"""What a delete becomes in flattened events, by every setting that is followed, on real connectors of two series of Debezium.

The table's rows are the source's after a batch in the process, after one by Spark's jobs, and after all of it was sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from airflow_cdc.core.errors import CdcError
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.apply import few
from stack import fetch, registry
from stack.connect import DEBEZIUM_CLASS, ConnectWorker, ready, start_connect
from stack.process import wait_until
from tests.faults_diagnosis.unfollowed import FORMS
from tests.integration.followed_mysql import FollowedMySql
from tests.integration.mariadb.recovered import connector_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack import Stack
    from stack.mysql import MySqlServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

MODE: Final = "delete.tombstone.handling.mode"
WHOLE: Final = {"add.fields": "op,source.ts_ms,source.gtid,source.server_id,source.file,source.pos,source.row"}
TODAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "as it comes": {},
    "tombstone": {MODE: "tombstone", **WHOLE},
    "rewrite": {MODE: "rewrite", **WHOLE},
    "rewrite, nothing added": {MODE: "rewrite"},
    "rewrite-with-tombstone": {MODE: "rewrite-with-tombstone", **WHOLE},
    "delete-to-tombstone": {MODE: "delete-to-tombstone", **WHOLE},
    "the older rewrite": {"delete.handling.mode": "rewrite", "drop.tombstones": "false"},
    "the older drop": {"delete.handling.mode": "drop", "drop.tombstones": "true"},
}
OLDER: Final[Mapping[str, Mapping[str, str]]] = {
    "rewrite": {"delete.handling.mode": "rewrite", **WHOLE},
    "rewrite, tombstones kept": {"delete.handling.mode": "rewrite", "drop.tombstones": "false", **WHOLE},
    "rewrite, nothing added": {"delete.handling.mode": "rewrite", "drop.tombstones": "false"},
    "none": {"delete.handling.mode": "none"},
    "none, tombstones kept": {"delete.handling.mode": "none", "drop.tombstones": "false"},
    "drop, tombstones kept": {"drop.tombstones": "false"},
}
LOST: Final[Mapping[str, Mapping[str, str]]] = {MODE: {MODE: "drop"}, "1.9 as it comes": {}}
# 1.9's own names, and what it calls a snapshot without rows
_NAMES: Final = next(form for form in FORMS if form.name == "names_1x")
_OF_1_9: Final = {"snapshot.mode": "schema_only", "schema.history.internal.store.only.captured.databases.ddl": ""}
_WORKER_1_9: Final = {
    **registry.WORKER,  # its jars name no plugins in service files
    "group.id": "flat_1",
    **{f"{part}.storage.topic": f"flat_1_{part}s" for part in ("config", "offset", "status")},
}

# a row deleted, one deleted and written again, one written and deleted, one whose key changes, one that gets an older key
FIRST: Final = (
    "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL), (5, 'e')",
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM t WHERE id = 2",
    "INSERT INTO t VALUES (2, 'again')",
    "UPDATE t SET id = 40 WHERE id = 4",
)
SECOND: Final = (
    "DELETE FROM t WHERE id = 3",
    "INSERT INTO t VALUES (6, 'f')",
    "DELETE FROM t WHERE id = 6",
    "UPDATE t SET id = 1 WHERE id = 5",
    "DELETE FROM t WHERE id = 40",
    "INSERT INTO t VALUES (40, NULL)",
)


@pytest.fixture(scope="module")
def worker_1_9(servers: Stack, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    """A worker of today's with Debezium 1.9, for which a delete has other settings."""
    fetch.fetch_all(["kafka", "debezium-1"])
    folder = tmp_path_factory.mktemp("flat-1")
    worker = start_connect(
        folder, servers.logs, kafka, plugins=("debezium-1",), more=_WORKER_1_9, name="connect-flat-1"
    )
    with ready(worker):
        yield worker


@dataclass(slots=True)
class Followed(FollowedMySql):
    """A table that a connector follows whose events are rows."""

    worker: ConnectWorker | None = field(default=None, init=False)

    def follow(self, config: Mapping[str, str]) -> None:
        self.connector.create(self.database, dict(config))
        self.wait_read()
        self.mirror(self.database)

    def call(self, method: str, path: str, body: object = None) -> object:
        assert self.worker is not None
        return self.worker.call(method, f"/connectors/{self.database}{path}", body)

    def send_again(self, offsets: object) -> None:
        """Let the connector go on from an offset that it had before."""
        sent = self.sent()
        self.call("PUT", "/stop")
        wait_until(lambda: self.call("PATCH", "/offsets", offsets), timeout=60, what="the connector to stop")
        self.call("PUT", "/resume")
        self.wait_sent(sent + 1)


Start = Callable[[ConnectWorker, Mapping[str, str], bool], Followed]


@pytest.fixture
def start(  # noqa: PLR0917
    mysql: MySqlServer,
    kafka: str,
    spark: SparkSession,
    lake_properties: dict[str, str],
    databases: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Start]:
    """`start(worker, options of the transform, is_1_9)`: a connector from before the first row, ended with the test."""
    with ExitStack() as ends:

        def started(worker: ConnectWorker, options: Mapping[str, str], is_1_9: bool) -> Followed:
            name = databases()
            default = "" if is_1_9 else " DEFAULT 'new'"  # 1.9's transform replaces a NULL: the last test
            mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(40){default})")
            made = Followed(mysql, spark, Lake("lake", lake_properties), kafka, worker.url, tmp_path, name, ("t",))
            made.worker = worker
            made.set_up_mysql()
            ends.enter_context(closing(made.connector))
            own = {
                "connector.class": DEBEZIUM_CLASS,
                "database.ssl.mode": "disabled",
                "driver.allowPublicKeyRetrieval": "true",
                "transforms": "unwrap",
                "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
                "transforms.unwrap.replace.null.with.default": "false",
                **{f"transforms.unwrap.{key}": value for key, value in options.items()},
                **(_OF_1_9 if is_1_9 else {}),
            }
            config = connector_config(mysql, name, kafka, own)
            made.follow(_NAMES.settings(config, None) if is_1_9 else config)
            ends.callback(made.connector.delete, name)
            return made

        yield started


def is_mirrored(followed: Followed, monkeypatch: pytest.MonkeyPatch, *, again: bool) -> None:
    """Both ways of applying; and `again`: all of it once more."""
    beginning = followed.call("GET", "/offsets")
    followed.execute(*FIRST)
    followed.apply("in the process")
    assert followed.differences("t", ("id", "v")) == ([], [])
    monkeypatch.setattr(few, "FEW", 0)
    followed.execute(*SECOND)
    followed.apply("by Spark's jobs")
    assert followed.differences("t", ("id", "v")) == ([], [])
    assert len(followed.execute("SELECT * FROM t")) == 3
    if not again:
        return
    followed.send_again(beginning)
    followed.execute("UPDATE t SET v = 'last' WHERE id = 1")
    followed.apply("sent again")
    assert followed.differences("t", ("id", "v")) == ([], [])


@pytest.mark.parametrize("options", TODAYS.values(), ids=TODAYS)
def test_a_delete_of_todays_connector_is_applied(
    start: Start, connect_worker: ConnectWorker, monkeypatch: pytest.MonkeyPatch, options: Mapping[str, str]
) -> None:
    is_mirrored(start(connect_worker, options, False), monkeypatch, again=True)


@pytest.mark.parametrize("options", OLDER.values(), ids=OLDER)
def test_a_delete_of_a_connector_of_1_9_is_applied(
    start: Start, worker_1_9: ConnectWorker, monkeypatch: pytest.MonkeyPatch, options: Mapping[str, str]
) -> None:
    # it can't be started again here: reading its history, it calls what Kafka's client lost in 4.0 (poll(long))
    is_mirrored(start(worker_1_9, options, True), monkeypatch, again=False)


@pytest.mark.parametrize("kind", LOST)
def test_a_setting_by_which_no_delete_arrives_is_refused_by_name(
    start: Start, connect_worker: ConnectWorker, worker_1_9: ConnectWorker, kind: str
) -> None:
    is_1_9 = kind.startswith("1.9")
    followed = start(worker_1_9 if is_1_9 else connect_worker, LOST[kind], is_1_9)
    followed.execute(*FIRST[:1])
    with pytest.raises(CdcError, match="no delete reaches the topics"):
        followed.apply("refused")


def test_nulls_that_the_transform_of_1_9_replaces_are_refused_whatever_it_is_told(
    start: Start, worker_1_9: ConnectWorker
) -> None:
    """It ignores the setting of later releases, which `start` makes: the NULL arrives as the default, and nothing shows it."""
    followed = start(worker_1_9, OLDER["rewrite"], True)
    followed.execute("ALTER TABLE t ALTER v SET DEFAULT 'new'", *FIRST)
    with pytest.raises(CdcError, match=r"NULL in .*t\.v arrives as the column's default"):
        followed.apply("refused")
