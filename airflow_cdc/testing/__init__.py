"""Contract suites: what every kind of system must do, as pytest classes that a kind's own tests subclass.

    class TestOracle(SourceContract):
        @pytest.fixture
        def bench(self): ...

Each suite says in its docstring which fixture it needs. Needs pytest; no other module of this package imports it. The
suites for the Spark side of a source and of a connector are airflow_cdc.testing.rows and .events, which need pyspark.
"""

import pytest

pytest.register_assert_rewrite(
    "airflow_cdc.testing.events",
    "airflow_cdc.testing.kind",
    "airflow_cdc.testing.offset_codec",
    "airflow_cdc.testing.rows",
    "airflow_cdc.testing.source",
    "airflow_cdc.testing.transport",
)

from airflow_cdc.testing.kind import KindContract  # noqa: E402
from airflow_cdc.testing.offset_codec import OffsetCodecContract  # noqa: E402
from airflow_cdc.testing.source import SourceBench, SourceContract  # noqa: E402
from airflow_cdc.testing.transport import TransportBench, TransportContract  # noqa: E402

__all__ = [
    "KindContract",
    "OffsetCodecContract",
    "SourceBench",
    "SourceContract",
    "TransportBench",
    "TransportContract",
]
