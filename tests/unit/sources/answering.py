"""A session without a server: the test says what each statement is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_cdc.core.errors import SourceError
from airflow_cdc.sources.mysql.capabilities import ServerVersion
from airflow_cdc.sources.row import Row

Rows = list[dict[str, Any]]


def in_turn(answers: list[Any]) -> Any:
    """The next of these answers; the last one again and again."""
    return answers.pop(0) if len(answers) > 1 else answers[0]


class AnsweringSession:
    """`answer` is given each statement with its arguments. `asked`: the statements, in their order."""

    where = "shop at 10.0.0.5:3306"

    def __init__(self, version: str, answer: Callable[[str, Sequence[Any]], Rows]) -> None:
        self.version = ServerVersion.parse(version)
        self.answer = answer
        self.asked: list[str] = []

    def rows(self, sql: str, args: Sequence[Any] = (), *, doing: str) -> list[Row]:
        """The rows of the answer. A statement that has none to give says what it was for."""
        assert doing
        self.asked.append(sql)
        return [Row(row) for row in self.answer(sql, args)]

    def row(self, sql: str, args: Sequence[Any] = (), *, doing: str) -> Row:
        """The first row of the answer."""
        for row in self.rows(sql, args, doing=doing):
            return row
        raise SourceError(
            f"could not {doing}: the server returned an empty answer", where=self.where, todo="Ask again."
        )

    def run(self, sql: str, args: Sequence[Any] = (), *, doing: str) -> None:
        """A statement without an answer."""
        self.rows(sql, args, doing=doing)
