"""Apache Hudi on a Spark of its own: Hudi's newest bundle is for Spark 3.5, and an environment holds one pyspark.

`python()` is the interpreter of a second virtual environment, kept in the cache beside the jars. `start_hudi` starts a
Spark session in it, as a process that takes SQL; two of them are two writers, or a writer and a reader.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from stack import fetch
from stack.errors import StackError, UnavailableError, log_tail
from stack.versions import FLINK, HUDI, SPARK_OF_HUDI

WORKER: Final = Path(__file__).with_name("hudi_files") / "spark_worker.py"
CHECKOUT: Final = Path(__file__).resolve().parents[1]
PIP_TIMEOUT_S: Final = 900.0
END_TIMEOUT_S: Final = 30.0
HEAP: Final = "1g"


@dataclass(frozen=True, slots=True)
class HudiSpark:
    """A running session; everything that it is asked to write is committed when the call returns."""

    process: subprocess.Popen[str]
    requests: IO[str]
    answers: IO[str]
    log: Path

    def sql(self, text: str) -> list[list[Any]]:
        """Rows of one statement; raises StackError with what Spark says."""
        return self._ask({"sql": text})

    def write(self, query: str, path: Path, options: Mapping[str, str], mode: str = "append") -> None:
        """Write the rows of a query to the table at `path`, by the data source's own options."""
        self._ask({"write": {"query": query, "path": str(path), "mode": mode, "options": dict(options)}})

    def register_functions(self) -> None:
        """Register the functions of the Spark applications, which this Spark's Python loads from this checkout."""
        self._ask({"functions": True})

    def kill(self) -> None:
        """End Python and its JVM at once, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(END_TIMEOUT_S)

    def stop(self) -> None:
        """End the session; one that hangs is killed."""
        with contextlib.suppress(BrokenPipeError):
            self.requests.close()
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self.answers.close()

    def answer(self) -> list[list[Any]]:
        """The next answer's rows; raises StackError with what Spark says."""
        line = self.answers.readline()
        if not line:
            raise self._ended()
        said = json.loads(line)
        if "error" in said:
            raise StackError(said["error"])
        rows: list[list[Any]] = said["rows"]
        return rows

    def _ask(self, request: Mapping[str, Any]) -> list[list[Any]]:
        try:
            self.requests.write(json.dumps(request) + "\n")
            self.requests.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return self.answer()

    def _ended(self) -> StackError:
        return StackError(f"Hudi's Spark has ended; end of {self.log}:\n{log_tail(self.log)}")


def flink_bundle() -> Path:
    """Hudi's bundle for our Flink: the file that CDC_HUDI_FLINK_BUNDLE names. Raises UnavailableError without one.

    It is in no set of jars: no mirror of Maven Central that we found holds it.
    """
    name = f"hudi-flink{FLINK.rpartition('.')[0]}-bundle-{HUDI}.jar"
    named = os.environ.get("CDC_HUDI_FLINK_BUNDLE", "")
    if not Path(named).is_file():
        raise UnavailableError(f"CDC_HUDI_FLINK_BUNDLE names no file: it has to lead to {name}")
    return Path(named)


def start_hudi(folder: Path, log: Path, conf: Mapping[str, str] | None = None) -> HudiSpark:
    """Start a session whose tables are kept in `folder`; `conf` are further Spark settings."""
    log.parent.mkdir(parents=True, exist_ok=True)
    settings = json.dumps({**spark_conf(folder), **(conf or {})})
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [str(python()), str(WORKER), settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            text=True,
            start_new_session=True,
        )
    session = HudiSpark(process, *_pipes(process), log)
    session.answer()
    return session


def spark_conf(folder: Path) -> dict[str, str]:
    """Settings that Hudi needs, and those of a small session on this machine."""
    return {
        "spark.jars": ",".join(str(jar) for jar in fetch.set_jars("hudi")),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(folder / "local"),
        "spark.driver.memory": HEAP,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def environment() -> dict[str, str]:
    """This process's variables without those that lead to another Spark; the workers' Python is the session's own.

    Of this process's packages it has only those of the checkout.
    """
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
    own = {"PYSPARK_PYTHON": str(python()), "PYSPARK_DRIVER_PYTHON": str(python()), "PYTHONPATH": str(CHECKOUT)}
    return {**ours, **own}


def driver_environment() -> dict[str, str]:
    """Variables by which this process's Python has Hudi's Spark in front of its own, and all its other packages."""
    version = ".".join(map(str, sys.version_info[:2]))
    packages = python().parents[1] / "lib" / f"python{version}" / "site-packages"
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return {**ours, "PYTHONPATH": os.pathsep.join((str(packages), str(CHECKOUT)))}


def python() -> Path:
    """The interpreter that has Hudi's Spark; makes its environment if there is none yet (a minute)."""
    version = ".".join(map(str, sys.version_info[:2]))
    folder = fetch.cache_dir() / "environments" / f"spark-{SPARK_OF_HUDI}-python{version}"
    with fetch.exclusive(folder.parent):
        if not (folder / ".ready").exists():
            _make(folder)
    return folder / "bin" / "python"


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    command = [str(folder / "bin" / "pip"), "install", "--quiet", f"pyspark=={SPARK_OF_HUDI}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"pip could not install pyspark {SPARK_OF_HUDI}:\n{done.stderr.strip()[-800:]}")
    (folder / ".ready").touch()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise StackError("Hudi's Spark was started without pipes")
    return process.stdin, process.stdout
