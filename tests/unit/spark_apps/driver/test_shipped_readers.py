"""An executor that has pyarrow and nothing of ours decodes every format, to the same values: by what the driver ships."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_cdc.spark_apps.driver.shipped import write_archive
from tests.paths import ROOT

# what an executor need not have
MISSING = (
    "msgspec",
    "pyspark",
    "airflow",
    "httpx",
    "tenacity",
    "pymysql",
    "kafka",
    "pyiceberg",
    "fastavro._read",
    "fastavro._schema",
)
SCRIPT = """
import importlib.abc, json, sys
sys.path.insert(0, sys.argv[1])
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {missing} or name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.path.append(sys.argv[2])
import airflow_cdc
from tests.unit.spark_apps.driver.decoded_wires import decoded
assert airflow_cdc.__file__.startswith(sys.argv[1]), airflow_cdc.__file__
import fastavro
assert fastavro.__file__.startswith(sys.argv[1]), fastavro.__file__
print(json.dumps(decoded(sys.argv[3])))
"""


@pytest.mark.parametrize("name", ["mysql-json", "mysql-avro-confluent", "postgres-avro-headers", "mysql-flat-fields"])
def test_what_is_shipped_decodes_as_the_driver_does(tmp_path: Path, name: str) -> None:
    from tests.unit.spark_apps.driver.decoded_wires import decoded

    archive = tmp_path / "shipped.zip"
    write_archive(archive)
    script = SCRIPT.replace("{missing}", repr(set(MISSING)))
    argv = [sys.executable, "-c", script, str(archive), str(ROOT), name]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr[-2000:]
    there, here = json.loads(ended.stdout), decoded(name)
    assert there == here
    assert len(here) > 3
    assert all("'bad': None" in one for one in here)
