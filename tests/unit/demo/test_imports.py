"""The demo of MySQL runs where the provider was installed without any extra."""

from __future__ import annotations

import subprocess
import sys

from tests.paths import ROOT

EXTRAS = ("psycopg", "kazoo", "pika", "opensearchpy")
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({extras!r})); import demo.__main__"


def test_it_is_imported_without_the_extras() -> None:
    argv = [sys.executable, "-c", WITHOUT.format(extras=EXTRAS)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
