"""The path itself: MySQL, Debezium, Kafka, Debezium's JDBC sink, PostgreSQL."""

from __future__ import annotations

from tests.integration.jdbc.fed import Fed


def test_rows_updates_and_deletes_arrive_in_the_target(fed: Fed) -> None:
    fed.create("CREATE TABLE t (id bigint PRIMARY KEY, v varchar(20))", "INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c')")
    fed.follow()
    fed.feed()
    fed.wait_target("SELECT id, v FROM t ORDER BY id", [(1, "a"), (2, "b"), (3, "c")])
    fed.execute("UPDATE t SET v = 'b2' WHERE id = 2", "DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (4, 'ü')")
    fed.wait_target("SELECT id, v FROM t ORDER BY id", [(2, "b2"), (3, "c"), (4, "ü")])
