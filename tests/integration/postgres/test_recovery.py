"""A PostgreSQL pipeline recovered whole: its slot is gone, rows come, change and go meanwhile, and the mirror is equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.decisions.diagnosis.strategy import Plan
from airflow_cdc.flows import connector as connector_steps
from airflow_cdc.flows import reset_offset, watermark
from airflow_cdc.flows.abandon import abandon
from airflow_cdc.flows.close import close
from airflow_cdc.flows.decide import decide, looked_through
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.verify import verify
from tests.integration.postgres.recovered import EVENTS, MODES, ORDERS, ROW, Followed, writing
from tests.on_demand import on_demand

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
def test_an_odd_value_of_one_row_is_named_before_the_connector_is_stopped(followed: Followed) -> None:
    """Plan and open_recovery refuse it by its key."""
    followed.follow(MODES)
    followed.execute(f"INSERT INTO public.orders SELECT {ROW.format('i')} FROM generate_series(30, 40) i")
    followed.apply("apply-1")
    followed.execute(
        f"INSERT INTO public.orders SELECT {ROW.format('i')} FROM generate_series(41, 45) i",
        "UPDATE public.orders SET day = '0044-03-15 BC' WHERE id = 41",
        "UPDATE public.orders SET tags = '{{a,b},{c,d}}' WHERE id = 42",
        "UPDATE public.orders SET seen = 'infinity' WHERE id = 43",
    )
    run = replace(followed.base, run_id="rec-1")
    sane: dict[str, Any] = {"plan": {"strategy": "full_snapshot"}, "tables": ["public.orders", "public.events"]}
    plan = looked_through(
        run, Plan("full_snapshot", (), "", destructive=False, needs_approval=False, reason=""), sane["tables"]
    )
    with pytest.raises(SchemaError) as refused:
        open_recovery(run, Decision.from_json(sane))
    assert plan.refused
    for said in (plan.reason, str(refused.value)):
        for column, row in (("day", 41), ("tags", 42), ("seen", 43)):
            assert f"column {column} of public.orders (the row with id={row})" in said
        assert "Change the value" in said
        assert said.endswith(f"airflow cdc recover {followed.database} --table public.events")
    assert followed.connector.state(followed.database).state == "RUNNING"
    assert run.clients.control.state()["recovery"] is None


def value_changed(followed: Followed, run: Run) -> None:
    followed.execute("UPDATE public.orders SET day = NULL WHERE id = 44")


def column_left_out(followed: Followed, run: Run) -> None:
    name = followed.database
    config = followed.connector.raw_config(name)
    followed.connector.change_config(name, config, {**config, "column.exclude.list": r"public\.orders\.day"})


def table_left_out(followed: Followed, run: Run) -> None:
    run.clients.control.release(run.run_id)  # as a run does that has ended
    done = abandon(replace(run, run_id="by hand"), ["public.orders"], who="ann", reason="an odd date")
    assert (done["recovery"], done["left"]) == ("open", ["public.events"])
    run.clients.control.acquire(run.run_id, 600)


@pytest.mark.slow
@pytest.mark.parametrize("way_on", [value_changed, column_left_out, table_left_out])
def test_an_odd_value_that_comes_within_the_recovery_is_named_and_each_way_on_is_one(
    followed: Followed, way_on: Callable[[Followed, Run], None]
) -> None:
    """The same recovery reads on, with the value changed, or without the column or the table."""
    followed.follow(MODES)
    followed.execute(f"INSERT INTO public.orders SELECT {ROW.format('i')} FROM generate_series(30, 45) i")
    followed.apply("apply-1")
    followed.execute("INSERT INTO public.events VALUES (1, 'a'), (1, 'a')")
    run = replace(followed.base, run_id="rec-1")
    decision = decide(run)
    open_recovery(run, Decision.from_json({**decision, "plan": {**decision["plan"], "strategy": "full_snapshot"}}))
    connector_steps.stop(run)
    watermark.fence_and_watermark(run)
    followed.execute("UPDATE public.orders SET day = 'infinity' WHERE id = 44")
    with on_demand(followed.spark) as spark, pytest.raises(SchemaError) as named:
        recover(run, spark)
    assert "column day of public.orders (the row with id=44)" in named.value.what
    for said in ("then clear the task recover", "column.exclude.list", "airflow cdc abandon"):
        assert said in named.value.todo
    way_on(followed, run)
    with on_demand(followed.spark) as spark:
        recover(run, spark)
    reset_offset.reset_offset(run)
    connector_steps.resume(run)
    with on_demand(followed.spark) as spark:
        assert verify(run, spark)["verdict"] == "MATCH"
    publish(run)
    close(run)
    assert followed.differences("events", EVENTS) == ([], [])
    if way_on is table_left_out:
        return
    followed.execute("UPDATE public.orders SET total = -2 WHERE id = 35", "DELETE FROM public.orders WHERE id = 36")
    followed.apply("apply-2")
    columns = [name for name in ORDERS if way_on is value_changed or name != "day"]
    assert followed.differences("orders", columns) == ([], [])
    assert set(followed.lake.read_arrow(followed.database, "orders").column_names) == set(columns)


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
