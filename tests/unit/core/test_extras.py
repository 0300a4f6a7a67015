"""What is not installed is said in one line, with the extra that brings it."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module

import pytest
from airflow.sdk import Connection

from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.errors import ConfigError, needs
from airflow_cdc.core.kind import Lazy
from airflow_cdc.hooks.sql_control import SqlControlHook
from airflow_cdc.kinds import WINGS
from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
MISSION = (
    "apache-airflow",
    "apache-airflow-providers-apache-spark",
    "pyspark",
    "PyMySQL",
    "kafka-python",
    "great-expectations",
)


@pytest.mark.parametrize(
    ("extra", "wanted"), [("postgres", "airflow-provider-cdc[postgres]"), ("", "airflow-provider-cdc")]
)
def test_a_missing_package_is_said_with_its_extra(extra: str, wanted: str) -> None:
    with pytest.raises(ConfigError) as caught, needs(extra, where="here"):
        import_module("no_such_package_of_anybody")
    said = f"the package 'no_such_package_of_anybody' is not installed (here). Run: pip install '{wanted}'"
    assert (str(caught.value), caught.value.exit_status) == (said, 2)


def test_a_module_of_ours_that_is_missing_is_no_question_of_extras() -> None:
    with pytest.raises(ModuleNotFoundError), needs("postgres"):
        import_module("airflow_cdc.no_such_module")
    with pytest.raises(ModuleNotFoundError):
        Lazy("airflow_cdc.no_such_module:X").load()


def test_a_client_that_is_loaded_where_it_is_used_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg blocked, and the sink's modules forgotten, as in an installation that lacks it."""
    for module in [name for name in sys.modules if name.startswith(("pyiceberg", "airflow_cdc.sinks.iceberg."))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(ConfigError, match=r"'pyiceberg' is not installed\. Run: pip install 'airflow-provider-cdc'"):
        WINGS["sinks"]["iceberg"].client.load()


def test_a_postgres_connection_needs_the_extra_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    conn = Connection(conn_id="state", conn_type="postgres", host="127.0.0.1", port=1, schema="cdc", login="u")
    store = SqlControlStore(SqlControlHook("state").endpoint_of(conn))
    with pytest.raises(ConfigError, match=r"pip install 'airflow-provider-cdc\[postgres\]'"):
        store.reach()


def test_every_extra_that_is_named_exists_and_all_has_them() -> None:
    named = {
        value.extra
        for wing in WINGS.values()
        for name in wing.built_in
        for value in (getattr(wing[name], field) for field in wing[name].__slots__)
        if isinstance(value, Lazy)
    } - {""}
    assert named | {"postgres"} <= EXTRAS.keys()
    (whole,) = EXTRAS["all"]
    in_all = set(whole.partition("[")[2].rstrip("]").split(","))
    assert in_all == EXTRAS.keys() - {"all", "dev", "docs", "iceberg", "kafka"}  # the last two are in the plain install


def test_the_plain_install_keeps_what_every_pipeline_began_with() -> None:
    plain = {
        requirement.partition(">")[0].partition("=")[0].partition("[")[0] for requirement in PROJECT["dependencies"]
    }
    assert set(MISSION) <= plain
    assert "psycopg" not in plain
