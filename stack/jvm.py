"""JVM options for short-lived Spark drivers on a small machine: quick compilation, and Spark's classes from an archive.

Half of a short Spark job is the JVM reading and verifying classes and compiling code that runs a few times. An archive
of the loaded classes (class data sharing, JEP 350) is written once and kept in the cache; the quick compiler alone is
used, because two cores have no room for a second one beside the work.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from stack import fetch
from stack.errors import StackError

WARM_UP = Path(__file__).with_name("warm_up.py")
# With the quick compiler alone the JVM keeps 48 MB for compiled code, and stops compiling for good when Spark has
# filled them: half a minute into `verify`, with everything after that interpreted.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
WARM_UP_SECONDS = 300.0

log = logging.getLogger("stack.jvm")


def conf(own: str = "-Duser.timezone=UTC") -> dict[str, str]:
    """Spark's settings for a driver in this environment: its jars, and quick start; `own` are further Java options.

    The jars stand on the class path, because classes that Spark itself loads from `spark.jars` are in no archive. Makes
    the archive if there is none yet (half a minute). Where that fails, drivers start without one, slower.
    """
    options = [own, QUICK]
    try:
        options.append(f"-XX:SharedArchiveFile={archive()}")
    except StackError as error:
        log.warning("drivers start without an archive of Spark's classes: %s", error)
    return {"spark.driver.extraClassPath": class_path(), "spark.driver.extraJavaOptions": " ".join(options)}


def class_path() -> str:
    """Spark's further jars."""
    return ":".join(str(jar) for jar in fetch.set_jars("spark"))


def archive() -> Path:
    """The archive of this environment.

    Raises StackError if the warm-up job fails. It is not tried again on a machine that was too busy for it: each of several
    workers would wait as long.
    """
    folder = Path(sys.prefix) / "share" / "spark-classes"
    path = folder / f"{_name()}.jsa"
    failure = path.with_suffix(".failed")
    with fetch.exclusive(folder):
        if failure.exists():
            raise StackError(f"{failure.read_text()}\nRemove {failure} to try again.")
        if not path.exists():
            for old in folder.glob("*.jsa"):
                old.unlink()
            try:
                _make(path)
            except StackError as error:
                failure.write_text(str(error))
                raise
    return path


def _name() -> str:
    """The JVM refuses an archive if one jar is another file, or newer, than when it was written.

    It compares files, not their names: checkouts that share an environment by a link share the archive.
    """
    own = sorted((Path(find_spec("pyspark").origin).parent / "jars").glob("*.jar"))  # type: ignore[union-attr,arg-type]
    jars = "\n".join(f"{jar.resolve()} {jar.stat().st_mtime_ns}" for jar in (*own, *fetch.set_jars("spark")))
    return hashlib.sha256(f"{fetch.java_banner()}\n{WARM_UP.read_text()}\n{jars}".encode()).hexdigest()[:16]


def _make(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch) / "made.jsa"
        command = [
            str(Path(sys.executable).with_name("spark-submit")),
            "--master=local[1]",
            f"--driver-java-options={QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:cds=off",
            f"--driver-class-path={class_path()}",
            "--conf=spark.ui.enabled=false",
            "--conf=spark.driver.host=127.0.0.1",
            "--conf=spark.driver.bindAddress=127.0.0.1",
            f"--conf=spark.local.dir={scratch}",
            str(WARM_UP),
            scratch,
        ]
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        try:
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=WARM_UP_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise StackError(f"Spark's warm-up job took longer than {WARM_UP_SECONDS:.0f} s") from None
        if done.returncode or not made.exists():
            raise StackError(
                f"Spark's warm-up job ended with {done.returncode}:\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}"
            )
        made.replace(path)
