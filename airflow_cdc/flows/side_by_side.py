"""The same for many tables, some at a time: while one waits for the catalog or the server, another one works."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Answer = TypeVar("Answer")


def for_each(act: Callable[[T], Answer], items: Sequence[T]) -> list[Answer]:
    """The answers in order. After the first error, which is raised, nothing more is begun."""
    with ThreadPoolExecutor(max(1, min(len(items), os.cpu_count() or 1))) as pool:
        return list(pool.map(act, items))
