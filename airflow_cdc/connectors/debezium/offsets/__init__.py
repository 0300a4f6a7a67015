"""What Debezium stores as its offset, one module per source, and what no source's connector stores."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

_OPEN_PREFIXES: Final = ("transaction_", "incremental_snapshot_")


def unknown_keys(value: Iterable[str], keys: Collection[str]) -> Iterator[str]:
    """The keys of an offset that are not among these, each as a fault that names the nearest one."""
    for key in value:
        if key not in keys and not key.startswith(_OPEN_PREFIXES):
            close = difflib.get_close_matches(key, keys, n=1)
            yield f"unknown key {key!r}{f' (did you mean {close[0]!r}?)' if close else ''}"
