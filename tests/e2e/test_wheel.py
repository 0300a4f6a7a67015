"""The wheel alone in a clean environment: Airflow lists the provider, the DAGs load, the commands answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "airflow-cdc-jsonlog"
REGISTRY = """
pipelines:
  shop:
    source:    {kind: mysql, conn_id: shop_mysql, tables: [shop.orders]}
    connector: {kind: debezium, conn_id: shop_connect, name: shop}
    transport: {kind: kafka, conn_id: shop_kafka}
    sink:      {kind: iceberg, catalog: lake, namespace: shop, writer: cdc_apply}
"""


class Installed:
    """A virtual environment with the wheel, and an Airflow home of its own."""

    def __init__(self, folder: Path, venv: Path) -> None:
        self.bin, self.home = venv / "bin", folder / "home"
        self.constraints = ROOT / "constraints.txt"
        self.home.mkdir()
        (self.home / "dags").mkdir()
        (self.home / "pipelines.yaml").write_text(REGISTRY)
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "PYTHON"))}
        self.env = {
            **plain,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
        }

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / argv[0]), *argv[1:]],
            env=self.env, cwd=self.home, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip


def build(project: Path, folder: Path) -> Path:
    """The wheel of a project, built into an empty folder."""
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(project)]
    subprocess.run(argv, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    return wheel


def pinned(folder: Path) -> Installed:
    """A new environment with the wheel."""
    wheel = build(ROOT, folder / "dist")
    venv.create(folder / "venv", with_pip=True)
    made = Installed(folder, folder / "venv")
    got = made.run("pip", "install", "--quiet", "--constraint", str(made.constraints), str(wheel))
    assert got.returncode == 0, got.stderr[-3000:]
    return made


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The environment named by CDC_WHEEL_VENV (`make airflow-matrix`), or one with the wheel and the pinned constraints.

    Airflow's database is created.
    """
    folder = tmp_path_factory.mktemp("wheel")
    if ready := os.environ.get("CDC_WHEEL_VENV"):
        made = Installed(folder, Path(ready))
        made.constraints = folder / "as-it-is.txt"
        made.constraints.write_text(
            "\n".join(re.findall(r"^[\w.-]+==.*$", made.run("pip", "freeze").stdout, re.MULTILINE))
        )
    else:
        made = pinned(folder)
    assert made.run("airflow", "cdc", "init", "--stub", str(made.home / "dags")).returncode == 0
    assert made.run("airflow", "db", "migrate").returncode == 0
    return made


def answer(stdout: str) -> Any:
    """The JSON of an Airflow command, which may log a line before it."""
    lines = stdout.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("["))
    return json.loads("\n".join(lines[start:]))


@pytest.mark.timeout(1200)
def test_airflow_lists_the_provider(installed: Installed) -> None:
    got = installed.run("airflow", "providers", "get", "airflow-provider-cdc", "--output", "json")
    assert got.returncode == 0, got.stderr[-2000:]
    assert json.loads(got.stdout)[0]["Provider"] == "airflow-provider-cdc"


def test_the_dags_load_without_an_import_error(installed: Installed) -> None:
    got = installed.run("airflow", "dags", "list-import-errors", "--local", "--output", "json")
    assert (got.returncode, answer(got.stdout)) == (0, []), got.stdout + got.stderr[-2000:]
    listed = installed.run("airflow", "dags", "list", "--local", "--output", "json")
    assert {"cdc_recovery", "cdc_repair", "cdc_apply__shop", "cdc_nightly_consistency__shop"} <= {
        one["dag_id"] for one in answer(listed.stdout)
    }


def test_the_page_comes_with_the_wheel(installed: Installed) -> None:
    got = installed.run("airflow", "plugins", "--output", "json")
    assert got.returncode == 0, got.stderr[-2000:]
    mine = next(one for one in answer(got.stdout) if one["name"] == "airflow_cdc")
    assert "/cdc" in str(mine["fastapi_apps"])
    script = (
        "from airflow_cdc.reports.page import environment;"
        "[environment().get_template(n) for n in ('overview.html.j2', 'pipeline.html.j2', 'run.html.j2', 'runbook.html.j2', 'error.html.j2')];"
        "from airflow_cdc.reports.runbook import runbook_html;"
        "print('whole' if runbook_html('GTID_PURGED') else 'without the runbook')"
    )
    assert installed.run("python", "-c", script).stdout.strip() == "whole"


def test_the_doctor_tells_the_truth_of_a_broken_set_up(installed: Installed) -> None:
    got = installed.run("airflow", "cdc", "doctor", "--output", "json")
    checks = json.loads(got.stdout)
    states = {(one["subject"], one["name"]): one["state"] for one in checks}
    assert states["installation", "pyspark"] == states["installation", "java"] == "ok"
    assert got.returncode in (1, 2)
    assert "shop_mysql" in got.stdout + got.stderr
    assert "Traceback" not in got.stdout + got.stderr


JSONLOG = REGISTRY.replace("mysql, conn_id: shop_mysql", "jsonlog, conn_id: shop_log")


def test_another_distribution_adds_a_kind_of_source(installed: Installed, tmp_path: Path) -> None:
    """The one of CONTRIBUTING.md: found by its entry point, and held by the suites that come with the wheel."""
    (installed.home / "jsonlog.yaml").write_text(JSONLOG)
    listed = ("airflow", "cdc", "pipelines", "--registry", str(installed.home / "jsonlog.yaml"), "--output", "json")
    before = installed.run(*listed)
    assert before.returncode == 2
    assert "Write 'mysql'" in before.stdout + before.stderr

    wheel = build(EXAMPLE, tmp_path)
    got = installed.run("pip", "install", "--quiet", "--constraint", str(installed.constraints), "pytest", str(wheel))
    assert got.returncode == 0, got.stderr[-3000:]
    after = installed.run(*listed)
    assert after.returncode == 0, after.stderr[-2000:]
    assert json.loads(after.stdout)[0]["source"]["kind"] == "jsonlog"

    suites = str(EXAMPLE / "tests")
    held = installed.run("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", suites, "-c", os.devnull, suites)
    assert held.returncode == 0, held.stdout[-3000:]
    assert int(held.stdout.split(" passed")[0].split()[-1]) > 20
