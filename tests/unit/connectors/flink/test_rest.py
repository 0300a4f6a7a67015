"""What is said of an answer of Flink."""

from __future__ import annotations

from airflow_cdc.connectors.flink.rest import advised
from airflow_cdc.core.errors import ConnectorError

# of a job with Hudi's sink, started a second time by one SQL gateway
UNMAPPED = (
    "HTTP 500: java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint file:/x/chk-8. Cannot map"
    " checkpoint/savepoint state for operator 4e7e8408c7c0798e39d4445d3500b44d to the new program, because the operator is not"
    " available in the new program."
)


def test_a_state_of_other_operators_says_what_to_restart() -> None:
    assert "Restart the SQL gateway" in advised(ConnectorError(UNMAPPED, where="Flink", todo="See the log.")).todo
    assert advised(ConnectorError("HTTP 500: no", where="Flink", todo="See the log.")).todo == "See the log."
