"""The functions of the Spark applications on a Spark that cannot call Python over Arrow arrays: the same values, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_cdc.decisions.compare.json_text import json_canonical
from airflow_cdc.spark_apps.driver.sql import literal
from stack.errors import StackError
from stack.hudi import HudiSpark

DOCUMENTS = (
    '{"b": 1.0, "a": [1, 2e3, -0.0], "é😀": null}',
    "12345678901234567890.1234567890123456789",
    '"\\ud800"',
    "4.9E-324",
    "1e999999999",
    "not JSON",
    "",
)


@pytest.fixture
def session(hudi: HudiSpark) -> Iterator[HudiSpark]:
    """The session as a driver has it, in ANSI mode."""
    hudi.sql("SET spark.sql.ansi.enabled = true")
    hudi.register_functions()
    yield hudi
    hudi.sql("RESET spark.sql.ansi.enabled")


@pytest.mark.parametrize(
    ("name", "texts", "more", "reference"),
    [
        ("cdc_json_canonical", DOCUMENTS, "", json_canonical),
    ],
)
def test_a_function_gives_what_the_reference_gives(
    session: HudiSpark, name: str, texts: tuple[str, ...], more: str, reference: Callable[[str], str | None]
) -> None:
    values = ", ".join(f"({at}, {literal(text)})" for at, text in enumerate(texts))
    rows = session.sql(f"SELECT n, {name}(t{more}), {name}(CAST(NULL AS string){more}) FROM VALUES {values} v (n, t)")
    assert sorted(rows) == [[at, reference(text), None] for at, text in enumerate(texts)]


def test_a_session_without_ansi_mode_is_refused(hudi: HudiSpark) -> None:
    with pytest.raises(StackError, match=r"spark\.sql\.ansi\.enabled is false"):
        hudi.register_functions()
