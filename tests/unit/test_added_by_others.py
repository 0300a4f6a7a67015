"""A kind of source that another distribution adds by an entry point: the one of CONTRIBUTING.md, installed for real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

EXAMPLE = ROOT / "examples" / "airflow-cdc-jsonlog"
REGISTRY = """
pipelines:
  shop:
    source:    {kind: jsonlog, conn_id: shop_log, tables: [shop.orders]}
    connector: {kind: debezium, conn_id: shop_connect, name: shop}
    transport: {kind: kafka, conn_id: shop_kafka}
    sink:      {kind: iceberg, catalog: lake, namespace: shop}
"""
READ = """
import sys
from airflow_cdc.config.registry import load_registry
from airflow_cdc.kinds import kinds_of, problems_for, reads_of
shop = load_registry(sys.argv[1])["shop"]
print([kind.name for kind in kinds_of(shop)], reads_of(shop).decoder, len(problems_for(shop)) > 10)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the distribution was installed into."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(folder), str(EXAMPLE)], check=True, capture_output=True, timeout=120)
    return folder


def run(*argv: str, path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])}
    return subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, timeout=120, check=False)


def test_it_proves_itself_with_the_contract_suites(installed: Path) -> None:
    """`-c` a file that does not exist here: none of this project's settings hold for it."""
    suites = str(EXAMPLE / "tests")
    got = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", suites, "-c", os.devnull, suites, path=installed
    )
    assert got.returncode == 0, got.stdout[-3000:]
    passed = int(got.stdout.split(" passed")[0].split()[-1])
    assert passed > 20, got.stdout[-300:]


def test_a_pipeline_of_it_is_read_and_one_without_it_is_refused(installed: Path, tmp_path: Path) -> None:
    path = tmp_path / "pipelines.yaml"
    path.write_text(REGISTRY)
    got = run("-c", READ, str(path), path=installed)
    assert got.stdout.strip() == "['jsonlog', 'debezium', 'kafka', 'iceberg'] None True", got.stderr[-2000:]
    without = run("-c", READ, str(path), path=ROOT)
    assert "source.kind is not one of the allowed words: 'jsonlog'" in without.stderr
