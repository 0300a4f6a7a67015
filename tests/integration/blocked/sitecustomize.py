"""On PYTHONPATH, this lets nothing import what a pipeline without a sink must not need. Python imports it at its start."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

BLOCKED = frozenset({"pyspark", "pyarrow", "pandas", "great_expectations", "pyiceberg"})


class Blocked(MetaPathFinder):
    """Refuses them as if they were not installed."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        """None for all others: the next finder is asked."""
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)


if __name__ == "sitecustomize":  # not where a test imports it for its list
    sys.meta_path.insert(0, Blocked())
