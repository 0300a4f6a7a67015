"""What is said of a column whose values cannot be believed in too many rows."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings


@pytest.mark.parametrize(
    ("kind", "says", "never"),
    [
        ("mysql.MySqlConnector", "utf8mb4", "REPLICA IDENTITY"),
        ("mariadb.MariaDbConnector", "utf8mb4", "REPLICA IDENTITY"),
        ("postgresql.PostgresConnector", "REPLICA IDENTITY FULL", "utf8mb4"),
    ],
)
def test_inv_31_the_way_out_is_in_the_words_of_the_source(kind: str, says: str, never: str) -> None:
    config = {"connector.class": f"io.debezium.connector.{kind}", "topic.prefix": "p"}
    told = ConnectorSettings.from_config(config).doubt_way_out
    assert says in told
    assert never not in told
