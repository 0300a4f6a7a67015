"""Generated bad input: damaged JSON documents and what must come of them. The same inputs each time.

hypothesis draws seeds and short texts, and the documents are made of the seed by `random`: drawing every part of
ten thousand documents would take minutes.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from airflow_cdc.core.errors import CdcError

T = TypeVar("T")

ATOMS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**63, -(2**70), 10**400, 0.5, 1e308, float("inf"), float("nan"),
    "", " ", "x", "0", "-1", "null", "'", "`", '"', "\x00", "é😀", "a" * 300, "1" * 25, "..", "$1", "(",
)  # fmt: skip
DELETED = object()


def many(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`count` inputs, derandomized."""
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    return settings(max_examples=count, derandomize=True, deadline=None, database=None, suppress_health_check=checks)


def made_by(make: Callable[[random.Random], T]) -> st.SearchStrategy[T]:
    """What `make` builds of a drawn seed."""
    return st.integers(0, 2**48).map(lambda seed: make(random.Random(seed)))


def damaged(good: Any) -> st.SearchStrategy[Any]:
    """A good document with up to three parts replaced, or taken out."""

    def damage(rng: random.Random) -> Any:
        value = good
        for _ in range(rng.randint(1, 3)):
            new = DELETED if rng.random() < 0.25 else some_json(rng)
            value = replaced(value, rng.choice(paths(value)), new)
        return value

    return made_by(damage)


def joined(*parts: str) -> st.SearchStrategy[str]:
    """Texts made of these parts and of single characters."""
    return made_by(
        lambda rng: "".join(rng.choice([*parts, chr(rng.randrange(0xD7FF))]) for _ in range(rng.randrange(15)))
    )


def some_json(rng: random.Random, depth: int = 2) -> Any:
    """Any JSON value, mostly small."""
    kind = rng.random()
    if depth and kind < 0.15:
        return [some_json(rng, depth - 1) for _ in range(rng.randrange(4))]
    if depth and kind < 0.3:
        return {str(rng.choice(ATOMS))[:20]: some_json(rng, depth - 1) for _ in range(rng.randrange(4))}
    return rng.choice(ATOMS)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every part of a JSON document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, part in inside for path in paths(part, (*at, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with one part replaced or, by DELETED, taken out."""
    if not path:
        return None if new is DELETED else new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is DELETED:
        del copy[path[0]]
    else:
        copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def value_or_typed_error(read: Callable[[], T], kind: type[CdcError] = CdcError) -> T | None:
    """What is read, or None after an error of `kind` that says something and survives pickling.

    An error of any other kind is not caught: it fails the test.
    """
    try:
        return read()
    except kind as caught:
        error = caught
    assert error.what
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own
    return None
