"""What a PostgreSQL server says of itself, its publications and its tables."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from psycopg.errors import ObjectNotInPrerequisiteState

from airflow_cdc.sources.postgres.errors import SourceObjectMissingError
from airflow_cdc.sources.postgres.facts import Identity, read_facts, read_publications, read_server, read_tables
from airflow_cdc.sources.postgres.grants import missing, read_grants
from airflow_cdc.sources.postgres.session import Session, open_session
from airflow_cdc.sources.postgres.snapshot import create_slot
from stack.installation import User
from stack.postgres import PostgresServer
from tests.integration.postgres.support import endpoint


def test_the_server_names_itself(server: PostgresServer, session: Session) -> None:
    facts = read_server(session)
    assert facts.system_id == str(server.execute("SELECT system_identifier FROM pg_control_system()")[0][0])
    assert facts.timeline == 1
    assert facts.name == f"{facts.system_id}/1"
    assert not facts.standby
    assert facts.version.startswith(server.settings.series)
    before = facts.lsn
    server.execute("SELECT pg_logical_emit_message(true, 't', 'x')")
    after = read_server(session)
    assert after.lsn > before
    assert after.position.covers(facts.position)
    assert after.wal_bytes_s is not None
    assert after.wal_bytes_s > 0


def test_publications_say_what_they_leave_out(server: PostgresServer, database: str, session: Session) -> None:
    server.execute(
        'CREATE TABLE public."Or ders" (id int PRIMARY KEY, a text, b text)',
        "CREATE TABLE public.events (id int, at date) PARTITION BY RANGE (at)",
        "CREATE TABLE public.e26 PARTITION OF public.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
        'CREATE PUBLICATION part FOR TABLE public."Or ders" (id, a) WHERE (id > 5)',
        "CREATE PUBLICATION leaves FOR TABLE public.events",
        "CREATE PUBLICATION rooted FOR TABLE public.events WITH (publish_via_partition_root = true, publish = 'insert')",
        "CREATE PUBLICATION everything FOR ALL TABLES",
        dbname=database,
    )
    found = read_publications(session, ["part", "leaves", "rooted", "everything", "absent"])
    assert sorted(found) == ["everything", "leaves", "part", "rooted"]
    assert found["part"].tables == {"public.Or ders": ("id", "a")}
    assert found["part"].row_filters == {"public.Or ders": "(id > 5)"}
    assert list(found["leaves"].tables) == ["public.e26"]
    assert list(found["rooted"].tables) == ["public.events"]
    assert found["rooted"].via_root
    assert found["rooted"].left_out == ("update", "delete")
    assert found["everything"].left_out == ()
    assert {"public.Or ders", "public.e26"} <= set(found["everything"].tables)


def test_tables_say_how_their_changes_come(server: PostgresServer, database: str, session: Session) -> None:
    server.execute(
        "CREATE TABLE public.keyed (id int PRIMARY KEY, long text, g int GENERATED ALWAYS AS (id * 2) STORED)",
        "CREATE TABLE public.bare (id int)",
        "CREATE TABLE public.whole (id int)",
        "ALTER TABLE public.whole REPLICA IDENTITY FULL",
        "CREATE TABLE public.nothing (id int PRIMARY KEY)",
        "ALTER TABLE public.nothing REPLICA IDENTITY NOTHING",
        "CREATE TABLE public.indexed (id int NOT NULL UNIQUE)",
        "ALTER TABLE public.indexed REPLICA IDENTITY USING INDEX indexed_id_key",
        "CREATE UNLOGGED TABLE public.unlogged (id int PRIMARY KEY)",
        "CREATE TABLE public.child () INHERITS (public.bare)",
        dbname=database,
    )
    names = ["keyed", "bare", "whole", "nothing", "indexed", "unlogged", "absent"]
    found = read_tables(session, [f"public.{name}" for name in names])
    assert "public.absent" not in found
    told = {name.partition(".")[2]: facts.tells_rows_apart for name, facts in found.items()}
    assert told == {"keyed": True, "bare": False, "whole": True, "nothing": False, "indexed": True, "unlogged": True}
    # the server's own answer to an UPDATE of a published table
    server.execute("CREATE PUBLICATION all_of_them FOR ALL TABLES", dbname=database)
    for name, tells in told.items():
        if name == "unlogged":
            continue
        change = (f"INSERT INTO public.{name} (id) VALUES (1)", f"UPDATE public.{name} SET id = 2")
        refused = nullcontext() if tells else pytest.raises(ObjectNotInPrerequisiteState, match="replica identity")
        with refused:
            server.execute(*change, dbname=database)
    assert found["public.keyed"].generated == ("g",)
    assert "long" in found["public.keyed"].toastable
    assert found["public.bare"].has_children
    assert found["public.unlogged"].unlogged
    assert found["public.whole"].identity is Identity.FULL


def test_truncate_changes_the_generation_of_a_table_and_of_its_partitions(
    server: PostgresServer, database: str, session: Session
) -> None:
    server.execute(
        "CREATE TABLE public.t (id int)",
        "CREATE TABLE public.p (id int) PARTITION BY HASH (id)",
        "CREATE TABLE public.p0 PARTITION OF public.p FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        dbname=database,
    )
    tables = ["public.t", "public.p"]

    def generations() -> dict[str, str]:
        return {name: facts.generation for name, facts in read_tables(session, tables).items()}

    first = generations()
    server.execute("INSERT INTO public.t VALUES (1)", "INSERT INTO public.p VALUES (1)", dbname=database)
    assert generations() == first
    server.execute("TRUNCATE public.t", "TRUNCATE public.p1", dbname=database)
    second = generations()
    assert second["public.t"] != first["public.t"]
    assert second["public.p"] != first["public.p"]


def test_all_at_once(server: PostgresServer, database: str, session: Session) -> None:
    server.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE public.t", dbname=database
    )
    create_slot(endpoint(server, database), f"s_{database}").close()
    facts = read_facts(session, "here:1", slot=f"s_{database}", publication="p", tables=["public.t", "public.absent"])
    assert facts.slot is not None
    assert facts.slot.confirmed is not None
    assert facts.slot.confirmed <= facts.log.lsn
    assert facts.publication is not None
    assert list(facts.tables) == ["public.t"]
    assert facts.settings["wal_level"] == "logical"
    assert facts.missing_privileges == ()
    assert facts.forecast is not None
    assert facts.forecast.left_bytes is None


def test_what_a_role_lacks(server: PostgresServer, database: str) -> None:
    user = User(f"u_{database}", "secret-of-a-test")
    server.execute(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.t (id int)",
        "CREATE TABLE shop.guarded (id int)",
        "ALTER TABLE shop.guarded ENABLE ROW LEVEL SECURITY",
        f"CREATE ROLE {user.user} LOGIN PASSWORD '{user.password}'",
        dbname=database,
    )
    tables = ["shop.t", "shop.guarded", "shop.absent"]
    try:
        with open_session(endpoint(server, database, user)) as reading:
            lacks = missing(read_grants(reading, tables))
            assert lacks == (
                f"REPLICATION (attribute of role {user.user})",
                "USAGE on schema shop",
                "SELECT on shop.t",
                "SELECT on shop.guarded",
                "BYPASSRLS for shop.guarded, whose policies would hide rows",
            )
            server.execute(
                f"GRANT USAGE ON SCHEMA shop TO {user.user}",
                f"GRANT SELECT ON ALL TABLES IN SCHEMA shop TO {user.user}",
                f"ALTER ROLE {user.user} BYPASSRLS",
                dbname=database,
            )
            assert missing(read_grants(reading, tables), recovery=False) == ()
            # diagnosing needs nothing more
            assert read_facts(reading, "here:1", tables=tables).version
            with pytest.raises(SourceObjectMissingError):
                reading.rows("SELECT * FROM shop.absent", doing="read")
    finally:
        server.execute(f"DROP OWNED BY {user.user}", f"DROP ROLE {user.user}", dbname=database)
