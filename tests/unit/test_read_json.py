"""JSON of others: a value or a ValueError, however deep it is nested."""

from __future__ import annotations

import pytest

from airflow_cdc.core.text import read_json


@pytest.mark.parametrize("text", ["", "{", "[" * 20_000, '{"a":' * 20_000, b"\xff", "9" * 5000])
def test_what_cannot_be_read_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text)


def test_the_rest_is_its_value() -> None:
    assert read_json(b'{"a": [1, null]}') == {"a": [1, None]}
