"""Two tables, `orders` and `words`, and how their connector's position is lost, alike for each source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stack.process import wait_until
from tests.integration.jdbc.fed import SECONDS, Fed

TABLES: Final = ("orders", "words")
WORDS: Final = "CREATE TABLE words (lang varchar(20), n int, t text, PRIMARY KEY (lang, n))"
PARTITIONS: Final = {"topic.creation.default.partitions": "4", "topic.creation.default.replication.factor": "1"}


def follow(fed: Fed, *statements: str) -> None:
    """Create the tables by these statements, with 60 orders and 20 words, and start the source connector."""
    fed.create(*statements)
    fed.execute(*(f"INSERT INTO words VALUES ('de', {n}, 'w{n}')" for n in range(1, 21)))
    fed.follow(PARTITIONS)


def feed(fed: Fed) -> None:
    """Start the sink connector, and wait for both copies."""
    fed.feed()
    fed.wait_target("SELECT count(*) FROM orders", [(60,)])
    fed.wait_target("SELECT count(*) FROM words", [(20,)])


def stream(fed: Fed) -> None:
    """Change a row of each table, so that the topics' newest records are of the log."""
    fed.execute("UPDATE orders SET v = 'streamed' WHERE id = 1", "UPDATE words SET t = 'streamed' WHERE n = 1")


def wait_streamed(fed: Fed) -> None:
    """Wait for these rows in the copies."""
    fed.wait_target("SELECT v FROM orders WHERE id = 1", [("streamed",)])
    fed.wait_target("SELECT t FROM words WHERE n = 1", [("streamed",)])


def lose(fed: Fed, *new_orders: str) -> None:
    """Stop the source connector, change rows (`new_orders`: five that come), lose the log of it, and see it fail."""
    fed.stop_source()
    fed.execute(
        "DELETE FROM orders WHERE id BETWEEN 10 AND 19",
        "UPDATE orders SET total = -1, day = NULL WHERE id BETWEEN 20 AND 24",
        *new_orders,
        "DELETE FROM words WHERE n < 4",
        "INSERT INTO words VALUES ('en', 1, '😀')",
    )
    fed.purge()
    fed.failure()


def plain(row: Sequence[Any]) -> tuple[str, ...]:
    """A row as text."""
    return tuple(str(value.decode() if isinstance(value, bytes) else value) for value in row)


def wait_equal(rows: Callable[[], tuple[list[Any], list[Any]]]) -> None:
    """Wait until both sides of `rows` are alike."""

    def equal() -> bool | None:
        ours, theirs = rows()
        return True if ours == theirs else None

    wait_until(equal, timeout=SECONDS, what="source and copies to be equal")
