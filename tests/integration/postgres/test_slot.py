"""Replication slots on the real servers: how they are read, moved forward, copied, dropped and lost."""

from __future__ import annotations

import pytest

from airflow_cdc.core.errors import MissingPrivilegeError
from airflow_cdc.sources.postgres.errors import SlotError, SourceObjectMissingError
from airflow_cdc.sources.postgres.facts import read_server
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.session import PostgresEndpoint, Session, open_session
from airflow_cdc.sources.postgres.slot import WalStatus, advance, copy, drop, forecast, read_slot, read_slots
from airflow_cdc.sources.postgres.snapshot import create_slot, wait_unused
from stack.postgres import PostgresServer
from stack.process import wait_until

WRITE = "SELECT pg_logical_emit_message(true, 'test', repeat('x', 1000))"


def end(session: Session) -> Lsn:
    return read_server(session).lsn


@pytest.fixture
def slot(at: PostgresEndpoint, database: str) -> str:
    create_slot(at, f"s_{database}").close()
    return f"s_{database}"


def test_a_slot_is_read_as_it_is(session: Session, slot: str, database: str) -> None:
    found = read_slots(session)[slot]
    assert (found.plugin, found.database, found.active, found.temporary) == ("pgoutput", database, False, False)
    assert found.wal_status is WalStatus.RESERVED
    assert not found.invalidated
    assert found.restart is not None
    assert found.confirmed is not None
    assert found.restart <= found.confirmed <= end(session)
    assert found.misfit(database) == ""
    assert "is of database" in found.misfit("other")
    assert "plugin" in found.misfit(database, "decoderbufs")
    assert (found.inactive_s is not None) == (session.version >= 170000)
    assert read_slot(session, "absent") is None


def test_it_moves_forward_and_never_back_nor_past_the_end(server: PostgresServer, session: Session, slot: str) -> None:
    before = read_slot(session, slot)
    assert before is not None
    assert before.confirmed is not None
    server.execute(WRITE, WRITE)
    to = end(session)
    assert advance(session, slot, to).confirmed == to
    assert advance(session, slot, to).confirmed == to  # there already
    with pytest.raises(SlotError, match="cannot go back"):
        advance(session, slot, before.confirmed)
    with pytest.raises(SlotError, match="beyond the end of the log"):
        advance(session, slot, Lsn(end(session).value + 1_000_000))
    again = read_slot(session, slot)
    assert again is not None
    assert again.confirmed == to
    with pytest.raises(SourceObjectMissingError, match="does not exist"):
        advance(session, "absent", to)


def test_one_that_is_in_use_is_left_alone(
    server: PostgresServer, at: PostgresEndpoint, session: Session, slot: str
) -> None:
    from airflow_cdc.sources.postgres.session import connect

    reader = connect(at, replication="database")
    start = f"START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0 (proto_version '1', publication_names 'absent')"
    reader.pgconn.send_query(start.encode())
    wait_until(lambda: read_slots(session)[slot].active or None, timeout=10, what="the slot to be in use")
    with pytest.raises(SlotError, match="in use by process"):
        advance(session, slot, end(session))
    with pytest.raises(SlotError, match="in use by process"):
        drop(session, slot, database=at.database)
    with pytest.raises(SlotError, match=r"Check slot\.name"):
        drop(session, slot, database="other")
    reader.close()
    assert wait_unused(session, slot, 10) is not None
    assert drop(session, slot, database=at.database)
    assert not drop(session, slot, database=at.database)
    assert read_slot(session, slot) is None


def test_a_copy_keeps_the_log(server: PostgresServer, session: Session, slot: str) -> None:
    held = copy(session, slot, f"{slot}_hold")
    server.execute(WRITE)
    moved = advance(session, slot, end(session))
    kept = read_slot(session, f"{slot}_hold")
    assert kept is not None
    assert kept.confirmed == held.confirmed
    assert moved.confirmed is not None
    assert held.confirmed is not None
    assert moved.confirmed > held.confirmed


def test_a_lost_one_says_so_and_a_reload_saves_one_that_is_not_yet(
    server: PostgresServer, session: Session, slot: str
) -> None:
    def limit(size: str) -> None:
        server.execute(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{size}'", "SELECT pg_reload_conf()")
        wait_until(
            lambda: server.execute("SHOW max_slot_wal_keep_size")[0][0] == size or None, timeout=10, what="the reload"
        )

    try:
        limit("32MB")
        fill = "SELECT count(*) FROM (SELECT pg_logical_emit_message(false, 't', repeat(md5(i::text), 30000)) FROM generate_series(1, 4) i) x"
        first = read_slots(session)[slot]
        assert first.safe_bytes is not None
        assert first.safe_bytes > 0
        said = forecast(first, end(session), 1000.0)
        assert said.left_s == pytest.approx(first.safe_bytes / 1000)
        assert said.kept_bytes == first.retained(end(session))
        for _ in range(20):
            server.execute(fill, "SELECT pg_switch_wal()")
            if read_slots(session)[slot].wal_status is WalStatus.UNRESERVED:
                break
        risky = read_slots(session)[slot]
        assert risky.wal_status is WalStatus.UNRESERVED
        assert not risky.invalidated
        assert forecast(risky, end(session), 1000.0).left_s == 0.0
        limit("1GB")
        assert read_slots(session)[slot].wal_status is WalStatus.RESERVED
        limit("32MB")
        server.execute("CHECKPOINT")
        lost = read_slots(session)[slot]
        assert lost.wal_status is WalStatus.LOST
        assert lost.restart is None
        assert lost.invalidated == "wal_removed"
        with pytest.raises(SlotError, match=r"invalidated \(wal_removed\)"):
            advance(session, slot, end(session))
    finally:
        limit("-1")


def test_without_replication_slots_can_be_read_and_not_changed(
    server: PostgresServer, database: str, session: Session, slot: str
) -> None:
    from stack.installation import User
    from tests.integration.postgres.support import endpoint

    user = User(f"u_{database}", "secret-of-a-test")
    server.execute(f"CREATE ROLE {user.user} LOGIN PASSWORD '{user.password}'")
    try:
        plain = endpoint(server, database, user)
        with open_session(plain) as reading:
            assert slot in read_slots(reading)
            with pytest.raises(MissingPrivilegeError, match="REPLICATION"):
                advance(reading, slot, end(session))
        with pytest.raises(MissingPrivilegeError, match="REPLICATION"):
            create_slot(plain, f"{slot}_2")
    finally:
        server.execute(f"DROP ROLE {user.user}")
