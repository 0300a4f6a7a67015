"""A PostgreSQL pipeline recovered whole: its slot is gone, rows come, change and go meanwhile, and the mirror is equal."""

from __future__ import annotations

import pytest

from tests.integration.postgres.recovered import EVENTS, MODES, ORDERS, ROW, Followed, writing

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")


def equal(followed: Followed) -> None:
    assert followed.differences("orders", ORDERS) == ([], [])
    assert followed.differences("events", EVENTS) == ([], [])


def test_a_dropped_slot_is_recovered(followed: Followed) -> None:
    """The short form: few rows, no writer."""
    followed.follow(MODES)
    followed.execute(f"INSERT INTO public.orders SELECT {ROW.format('i')} FROM generate_series(30, 60) i")
    followed.apply("apply-1")
    followed.connector.stop(followed.database)
    followed.execute(
        f"SELECT pg_drop_replication_slot('{followed.database}')",
        "DELETE FROM public.orders WHERE id < 40",
        "UPDATE public.orders SET total = -1 WHERE id = 50",
        "INSERT INTO public.events VALUES (1, 'a'), (1, 'a')",
    )
    done = followed.recover("rec-1")
    assert done["decision"]["diagnosis"]["code"] == "SLOT_MISSING"
    assert done["verify"]["verdict"] == "MATCH"
    equal(followed)


@pytest.mark.slow
def test_a_pipeline_whose_slot_was_dropped_is_recovered_while_its_source_is_written(followed: Followed) -> None:
    followed.follow(MODES)
    followed.execute(
        f"INSERT INTO public.orders SELECT {ROW.format('i')} FROM generate_series(1, 300) i",
        "INSERT INTO public.events SELECT i % 50, 'e' || i % 7 FROM generate_series(1, 500) i",
    )
    copied = "COPY public.events FROM STDIN"
    with (
        followed.server.connect(dbname=followed.database) as connection,
        connection.cursor() as cursor,
        cursor.copy(copied) as copy,
    ):
        copy.write("7\tcopied\n" * 20)
    # a long value that does not change is not in the log: five rows of twenty that hold one
    followed.execute("UPDATE public.orders SET v = 'changed' WHERE id <= 5")
    first = followed.apply("apply-1")
    assert first["public.orders"]["dead_letters"] == 5
    assert first["public.orders"]["replayed"] == 5
    equal(followed)

    followed.connector.stop(followed.database)
    followed.execute(f"SELECT pg_drop_replication_slot('{followed.database}')")
    followed.execute(
        "DELETE FROM public.orders WHERE id BETWEEN 100 AND 149",
        "UPDATE public.orders SET total = -1, day = NULL WHERE id BETWEEN 150 AND 160",
        f"INSERT INTO public.orders SELECT {ROW.format('i')} FROM generate_series(1001, 1050) i",
        "DELETE FROM public.events WHERE n < 10",
        "INSERT INTO public.events VALUES (7, 'copied'), (7, 'copied')",
    )
    followed.connector.resume(followed.database)
    assert "no longer available on the server" in followed.failure()

    row = ROW.format("({n} + 5000)")
    with writing(
        followed,
        f"INSERT INTO public.orders SELECT {row}",
        "UPDATE public.orders SET v = 'w{n}' WHERE id = 200 + {n} % 50",
        "DELETE FROM public.orders WHERE id = 5000 + {n} - 20",
        "INSERT INTO public.events VALUES ({n}, 'live'), ({n}, 'live')",
        "DELETE FROM public.events WHERE n = {n} - 30 AND t = 'live'",
    ):
        done = followed.recover("rec-1")
    assert done["decision"]["diagnosis"]["code"] == "SLOT_MISSING"
    assert done["verify"]["verdict"] == "MATCH"
    followed.execute(
        "UPDATE public.orders SET ok = NOT ok WHERE id < 50", "DELETE FROM public.events WHERE t = 'copied'"
    )
    followed.apply("apply-2")
    equal(followed)


PARTITIONED = (
    "DROP PUBLICATION {name}",
    "ALTER TABLE public.orders RENAME TO template",
    "CREATE TABLE public.orders (LIKE public.template INCLUDING ALL) PARTITION BY RANGE (id)",
    "CREATE TABLE public.orders_low PARTITION OF public.orders FOR VALUES FROM (0) TO (45)",
    "CREATE TABLE public.orders_high PARTITION OF public.orders FOR VALUES FROM (45) TO (10000)",
    "CREATE PUBLICATION {name} FOR TABLE public.orders, public.events",
)


@pytest.mark.slow
def test_a_partitioned_table_that_is_published_by_its_root_is_recovered(followed: Followed) -> None:
    """Rows move between partitions, a partition is emptied and another is added, before, in and after the gap."""
    name = followed.database
    followed.execute(*(statement.format(name=name) for statement in PARTITIONED))
    tables = ("public.orders", "public.events")
    facts = followed.source.facts_for(tables, None)
    assert (facts.by_partition, facts.unpublished()) == (("public.orders",), ())  # its partitions are, not itself
    followed.execute(f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true)")
    facts = followed.source.facts_for(tables, None)
    assert (facts.by_partition, facts.unpublished(), dict(facts.log_faults)) == ((), (), {})
    followed.follow(MODES)
    followed.execute(
        f"INSERT INTO public.orders SELECT {ROW.format('i')} FROM generate_series(30, 60) i",
        "UPDATE public.orders SET id = 61 WHERE id = 31",
        "DELETE FROM public.orders_low WHERE id = 32",
    )
    followed.apply("apply-1")
    equal(followed)
    followed.connector.stop(name)
    followed.execute(
        f"SELECT pg_drop_replication_slot('{name}')",
        "UPDATE public.orders SET id = 62 WHERE id = 33",
        "DELETE FROM public.orders_high WHERE id < 50",
        "UPDATE public.orders SET total = -1 WHERE id = 34",
    )
    done = followed.recover("rec-1")
    assert (done["decision"]["diagnosis"]["code"], done["verify"]["verdict"]) == ("SLOT_MISSING", "MATCH")
    followed.execute(
        "CREATE TABLE public.orders_more PARTITION OF public.orders FOR VALUES FROM (10000) TO (20000)",
        f"INSERT INTO public.orders SELECT {ROW.format('i')} FROM generate_series(10001, 10010) i",
        "UPDATE public.orders SET id = 20 WHERE id = 10010",
    )
    followed.apply("apply-2")
    equal(followed)
