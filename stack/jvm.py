"""JVM options for short-lived Spark drivers on a small machine: quick compilation, and Spark's classes from an archive.

Half of a short Spark job is the JVM reading and verifying classes and compiling code that runs a few times. An archive
of the loaded classes (class data sharing, JEP 350) is written once and kept in the cache; the quick compiler alone is
used, because two cores have no room for a second one beside the work.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from stack import fetch
from stack.errors import StackError

WARM_UP = Path(__file__).with_name("warm_up.py")
# With the quick compiler alone the JVM keeps 48 MB for compiled code, and stops compiling for good when Spark has
# filled them: half a minute into `verify`, with everything after that interpreted.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
WARM_UP_SECONDS = 300.0


def options() -> str:
    """Options for `spark.driver.extraJavaOptions`; makes the archive if the cache has none (half a minute)."""
    return f"{QUICK} -XX:SharedArchiveFile={archive()}"


def archive() -> Path:
    """The archive for this Java and this pyspark. Raises StackError if the warm-up job fails."""
    path = fetch.cache_dir() / "jvm" / f"spark-{_name()}.jsa"
    with fetch.exclusive(path.parent):
        if not path.exists():
            _make(path)
    return path


def _name() -> str:
    """Another Java or pyspark has other classes: the JVM would ignore their archive."""
    return f"{version('pyspark')}-{hashlib.sha256(fetch.java_banner().encode()).hexdigest()[:12]}"


def _make(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch) / "made.jsa"
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("spark-submit")),
                "--master=local[1]",
                f"--driver-java-options={QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:cds=off",
                "--conf=spark.ui.enabled=false",
                "--conf=spark.driver.host=127.0.0.1",
                "--conf=spark.driver.bindAddress=127.0.0.1",
                f"--conf=spark.local.dir={scratch}",
                str(WARM_UP),
                scratch,
            ],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=WARM_UP_SECONDS,
            check=False,
        )
        if done.returncode or not made.exists():
            raise StackError(
                f"Spark's warm-up job ended with {done.returncode}:\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}"
            )
        made.replace(path)
