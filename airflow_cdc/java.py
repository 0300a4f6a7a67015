"""The Java and the Spark that drivers are started with."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path


def java_command() -> str | None:
    """`$JAVA_HOME/bin/java`, else the one on PATH; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def pyspark_folder() -> Path | None:
    """Where the installed pyspark is, which has Spark's jars and its spark-submit; None if there is none."""
    package = find_spec("pyspark")
    places = None if package is None else package.submodule_search_locations
    return Path(places[0]) if places else None
