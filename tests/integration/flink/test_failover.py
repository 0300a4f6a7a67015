"""The source of a Flink job dies or is replaced, on two real servers: what is found, what is done, what is refused."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

import stack
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.observe import observe
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.gtid import GtidSet
from stack.flink import FlinkCluster
from stack.mysql import CDC_PRIVILEGES, MySqlServer, MySqlSettings, User
from stack.process import end, wait_until
from tests.diagnosing import diagnose
from tests.faults.proxy import Proxy
from tests.integration.flink.recovered import Copied, Followed
from tests.integration.flink.support import WAIT_S
from tests.integration.replicated import follows, gtids, replicate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

GIVES_UP = ("restart-strategy.type=none",)
AT_ONCE = (
    "restart-strategy.type=fixed-delay",
    "restart-strategy.fixed-delay.attempts=1000",
    "restart-strategy.fixed-delay.delay=1s",
)


class Moved:
    """A source and a replica under one address, which leads to the source, and the job that reads there."""

    def __init__(self, followed: Followed, source: MySqlServer, replica: MySqlServer, proxy: Proxy) -> None:
        self.followed, self.source, self.replica, self.proxy = followed, source, replica, proxy

    def lead_to_the_replica(self) -> None:
        """The old address leads to the replica, and every connection to the source is cut."""
        self.proxy.target = (self.replica.host, self.replica.port)
        login = self.followed.login
        assert login is not None
        threads = self.source.execute(f"SELECT id FROM information_schema.processlist WHERE user = '{login.user}'")
        for (thread,) in threads:
            self.source.execute(f"KILL {thread}")

    def promote(self) -> None:
        """The source dies, the job notices, and the replica takes its place and takes writes."""
        end(self.source.child)
        self.followed.failure()
        if self.replica.settings.gtid:
            self.replica.execute("STOP SLAVE", "RESET SLAVE ALL")
        self.proxy.target = (self.replica.host, self.replica.port)

    def lag(self) -> None:
        """The replica stops to follow, and the job reads one more change than it has."""
        self.replica.execute("STOP SLAVE")
        self.source.execute(f"UPDATE {self.followed.database}.t SET v = 'lost' WHERE id = 1")
        self.followed.wait_read()

    def untouched(self) -> tuple[object, ...]:
        """What a refusal has to leave as it is: the job, what its next start begins from, the sink and the recovery."""
        followed, plan = self.followed, self.followed.folder / "plan.json"
        state = followed.connector.state(followed.database)
        files = [one.read_bytes() for one in (plan, plan.with_name("plan.json.start"))]
        jobs = [job["jid"] for job in followed.flink.call("GET", "/jobs/overview")["jobs"]]
        return state, files, jobs, followed.versions("t"), followed.base.clients.control.facts().recovery

    def refused(self, strategy: str) -> str:
        """Why the strategy is refused; nothing is stopped or written for that."""
        before = self.untouched()
        decision = decide(replace(self.followed.base, run_id=f"asked-{strategy}"), strategy)
        assert decision["plan"]["refused"], decision
        assert self.untouched() == before
        return str(decision["plan"]["reason"])

    def goes_on(self) -> bool:
        """Whether the job has stored all that the replica has."""
        stored = self.followed.connector.facts(self.followed.database).offset
        return bool(stored and stored.position and gtids(self.replica).issubset(stored.position.gtids))

    def diagnosis(self) -> Diagnosis:
        run = self.followed.base
        return diagnose(observe(run))

    def rows(self) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        """The rows of the replica, and those of the sink."""
        ours = sorted(tuple(row.values()) for row in self.followed.sink_rows("t"))
        return sorted(self.replica.execute(f"SELECT id, v FROM {self.followed.database}.t")), ours


Make: TypeAlias = Callable[..., AbstractContextManager[Moved]]


@pytest.fixture
def moved(
    servers: stack.Stack, flink: FlinkCluster, spark: SparkSession, lake_properties: dict[str, str], tmp_path: Path
) -> Make:
    """Makes a Moved: the job, started with the settings of its session, has copied three rows."""

    @contextmanager
    def make(session: tuple[str, ...], *, gtid: bool = True) -> Iterator[Moved]:
        name = f"f_{uuid.uuid4().hex[:8]}"
        source, replica = (
            servers.add_mysql(MySqlSettings(name=f"{name}-{n}", server_id=n, gtid=gtid, buffer_pool="64M"))
            for n in (311, 312)
        )
        login = User("moving", secrets.token_hex(12))
        created = (
            f"CREATE USER '{login.user}'@'%' IDENTIFIED WITH {source.auth_plugin} BY '{login.password}'",
            f"GRANT {', '.join(CDC_PRIVILEGES)} ON *.* TO '{login.user}'@'%'",
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))",
            f"INSERT INTO {name}.t VALUES (1, 'first'), (2, 'first'), (3, 'first')",
        )
        source.execute(*created)
        if gtid:
            replicate(replica, source)
            follows(replica, source)
        else:
            replica.execute(*created)
        with Proxy((source.host, source.port)) as proxy:
            followed = Followed(
                source,
                flink,
                spark,
                Lake("lake", lake_properties),
                lake_properties,
                tmp_path,
                name,
                {"t": Copied("id INT, v STRING", "id")},
                address=("127.0.0.1", proxy.port),
                login=login,
                session=session,
            )
            try:
                followed.follow()
                assert decide(replace(followed.base, run_id="before"))["diagnosis"]["code"] == "HEALTHY"
                assert followed.base.clients.control.facts().servers == tuple(*source.execute("SELECT @@server_uuid"))
                yield Moved(followed, source, replica, proxy)
            finally:
                flink.cancel(name)
                for one in (source, replica):
                    end(one.child)
                    servers.mysql.pop(one.settings.name, None)
                servers.save()

    return make


@pytest.mark.minutes
@pytest.mark.parametrize("session", [GIVES_UP], ids=["FAILED"])
def test_a_promoted_replica_that_holds_it_all_is_gone_on_with(moved: Make, session: tuple[str, ...]) -> None:
    """No table is read anew, no change is lost; what stood in the state of the other operators is kept."""
    with moved(session) as pair:
        followed = pair.followed
        pair.source.execute(f"UPDATE {followed.database}.t SET v = 'second' WHERE id = 1")
        followed.wait_read()
        follows(pair.replica, pair.source)
        pair.promote()
        pair.replica.execute(
            f"INSERT INTO {followed.database}.t VALUES (4, 'new')",
            f"UPDATE {followed.database}.t SET v = 'third' WHERE id = 2",
            f"DELETE FROM {followed.database}.t WHERE id = 3",
        )
        before, left = followed.connector.committed_offset(followed.database, ""), len(followed.skipped())
        decision = followed.move("failover")
        assert (decision["diagnosis"]["code"], decision["plan"]["strategy"]) == ("SOURCE_FAILED_OVER", "translate_gtid")
        ledger = followed.base.clients.control.ledger_get("failover")
        written = ledger["document"]["written"]
        assert GtidSet.parse(written["gtids"]) == GtidSet.parse(before["gtids"])
        assert written["file"] in [row[0] for row in pair.replica.execute("SHOW BINARY LOGS")]
        assert followed.restored_from()
        assert len(followed.skipped()) - left == 1  # the source's alone
        source, sink = pair.rows()
        assert source == sink == [(1, "second"), (2, "third"), (4, "new")]
        assert len(followed.base.clients.control.facts().servers) == 2
        assert pair.diagnosis().code == "HEALTHY"
        # what a comparison finds is not put right by it, and a recovery does
        followed.spark.sql(f"DELETE FROM lake.{followed.database}.t WHERE id = 1")
        with pytest.raises(VerificationError, match="MISMATCH"):
            followed.compare("compared")


def test_a_job_that_went_on_by_itself_at_another_server_is_seen_and_its_tables_are_compared(moved: Make) -> None:
    """Flink tries again until the replica is promoted, and reads on there; nothing it says shows that."""
    with moved(AT_ONCE) as pair:
        followed = pair.followed
        follows(pair.replica, pair.source)
        pair.promote()
        pair.replica.execute(f"UPDATE {followed.database}.t SET v = 'there' WHERE id = 2")
        wait_until(lambda: pair.goes_on() or None, timeout=WAIT_S, what="the job to go on")
        assert pair.diagnosis().code == "SOURCE_FAILED_OVER"
        decision = followed.move("failover")
        assert decision["plan"]["strategy"] == "translate_gtid"
        assert pair.rows()[0] == pair.rows()[1] == [(1, "first"), (2, "there"), (3, "first")]
        assert pair.diagnosis().code == "HEALTHY"


def test_a_promoted_replica_that_lags_is_refused_with_the_transaction_that_it_lacks(moved: Make) -> None:
    """Flink would run there, and skip in silence what that server writes under numbers that the job has read."""
    with moved(GIVES_UP) as pair:
        followed = pair.followed
        follows(pair.replica, pair.source)
        pair.lag()
        lacking = str(gtids(pair.source) - gtids(pair.replica))
        pair.promote()
        pair.replica.execute(f"INSERT INTO {followed.database}.t VALUES (4, 'new')")
        diagnosis = pair.diagnosis()
        assert diagnosis.code == "GTID_AHEAD", diagnosis
        assert lacking in diagnosis.evidence["gtids will be skipped"]
        assert f"translate_gtid: the server does not have {lacking}" in pair.refused("translate_gtid")
        # what that server lost is taken out of the sink again by reading its table
        done = followed.recover("recovery")
        assert done["decision"]["plan"]["strategy"] == "full_snapshot"
        assert f"Not translate_gtid: the server does not have {lacking}" in done["decision"]["plan"]["reason"]
        assert done["verify"]["verdict"] == "MATCH"
        assert pair.rows()[0] == pair.rows()[1] == [(1, "first"), (2, "first"), (3, "first"), (4, "new")]


def test_a_job_that_went_on_by_itself_at_a_replica_that_lags_shows_it_in_the_comparison(moved: Make) -> None:
    """Its stored set is that server's own within seconds: only the rows still tell what was lost."""
    with moved(AT_ONCE) as pair:
        followed = pair.followed
        follows(pair.replica, pair.source)
        pair.lag()
        pair.promote()
        pair.replica.execute(*(f"INSERT INTO {followed.database}.t VALUES ({n}, 'new')" for n in (4, 5)))
        wait_until(lambda: pair.goes_on() or None, timeout=WAIT_S, what="the job to go on")
        assert pair.diagnosis().code == "SOURCE_FAILED_OVER"
        with pytest.raises(VerificationError, match="MISMATCH"):
            followed.move("failover")


def test_another_server_without_gtids_is_refused_because_its_files_mean_something_else(moved: Make) -> None:
    with moved(GIVES_UP, gtid=False) as pair:
        followed, known = pair.followed, pair.source.execute("SELECT @@server_uuid")[0][0]
        pair.promote()
        diagnosis = pair.diagnosis()
        assert diagnosis.code == "SOURCE_CHANGED", diagnosis
        assert known in diagnosis.evidence["server_uuid before"]
        assert "'translate_gtid' does not apply to SOURCE_CHANGED" in pair.refused("translate_gtid")
        assert decide(replace(followed.base, run_id="plan"))["plan"]["strategy"] == "full_snapshot"
