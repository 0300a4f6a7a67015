"""The Java that Spark is started with."""

from __future__ import annotations

import os
import shutil


def java_command() -> str | None:
    """`$JAVA_HOME/bin/java`, else the one on PATH; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")
