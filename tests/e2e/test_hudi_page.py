"""docs/systems/hudi.md, block by block in a fresh home on a stock Airflow; the tables are read by Hudi's own reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack import cluster, fetch
from stack.hudi import start_hudi
from tests.e2e.sink_pages import COLUMNS, of_page, world
from tests.e2e.test_wheel import build
from tests.e2e.walking import proven, walk
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_hudis_page(tmp_path: Path) -> None:
    steps = of_page("hudi.md", "Set up Hudi")
    wheel = build(ROOT, tmp_path / "dist")
    with world(tmp_path, cluster.ALL) as theirs:
        places = {
            "build/dist/*.whl": str(wheel),
            "/opt/hudi": f"{tmp_path}/hudi",
            "/opt/jars": str(fetch.fetch("hudi")),
            "/data/hudi": f"{tmp_path}/tables",
            "/data/control.db": f"{tmp_path}/control.db",
        }
        (tmp_path / "tables").mkdir()
        reader = theirs.reader(places)
        walk(reader, steps, "hudi")
        proven(reader)
        session = start_hudi(tmp_path / "look", tmp_path / "look.log")
        try:
            for table, names in COLUMNS.items():
                session.sql(f"CREATE TABLE {table} USING hudi LOCATION '{tmp_path}/tables/crm/{table}'")
                columns = ", ".join(f"CAST(`{name}` AS STRING)" for name in names)
                found = session.sql(f"SELECT {columns} FROM {table}")
                assert sorted([str(value) for value in row] for row in found) == theirs.rows(table)
        finally:
            session.stop()
