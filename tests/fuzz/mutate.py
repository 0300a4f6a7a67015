"""Mutated copies of valid samples: cut, repeated, spliced, and with what has broken parsers before put into them.

As in tests/unit/fuzzing.py, hypothesis draws a seed and `random` does the rest: drawing each part of a text takes too long.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from tests.unit.fuzzing import DELETED, made_by, paths, replaced, some_json

T = TypeVar("T", str, bytes)

# nothing that is read here is larger in practice, but a log; those are cut before they are searched
LARGEST: Final = 60_000
_NUMBER: Final = re.compile(r"\d+")
_WORDS: Final = (
    "\0", "\n", "\r\n", "\t", " ", "é😀", "\ud800", "²", "١", "\u202e", "\x1b[2J", "\x9b", "\ufeff", "'", '"', "`", "\\", "\\u",
    "\\u00", "\\'", "(", ")", "[", "]", "{", "}", "<", ">", ":", ",", ";", "-", "+", ".", "/", "//", "://", "@", "#", "%", "%00", "=",
    "*", "?", "!", "&", "|", "$", "$1", "${x}", "{{x}}", "(?<n>x)", "(?i", "(a+)+b", "[a", "/*", "*/", "/*!", "-- ", "null", "NaN",
    "Infinity", "true", "None", "1e999", "1e-999", "-0", "0x1F", "1_000", "2026-02-30", "9999-12-31T23:59:60.999999999+99:99",
    "0000-00-00", "10000-01-01", "P1Y", "password=", "--password ", "IDENTIFIED BY ", "Authorization: Basic ", "-----BEGIN A KEY-----",
    "Caused by: ", "ERROR ", "\tat ", "&a ", "*a", "<<: *a", "!!python/object:os.system x", "- ", ": ", "%s", "\u2028",
)  # fmt: skip
_NUMBERS: Final = ("0", "-1", "00", "1.5", "4294967296", "9223372036854775808", "9" * 25, "9" * 4400, "1e5", "", "²")
_LONG: Final = (
    "[",
    '{"a":',
    "9",
    "a",
    " ",
    "\\",
    "'",
    "(",
    "((a|",
    "\n",
    ":",
    "ab@",
    "x=",
    "-",
    "password ",
    "/*",
    "é",
)


def texts(*samples: str, most: int = LARGEST) -> st.SearchStrategy[str]:
    """Mutated texts of at most `most` characters."""
    return made_by(lambda rng: _mutated(rng, samples, _text_part, most))


def blobs(*samples: bytes, most: int = LARGEST) -> st.SearchStrategy[bytes]:
    """Mutated bytes, at most `most` of them."""
    return made_by(lambda rng: _mutated(rng, samples, _byte_part, most))


def documents(*samples: Any) -> st.SearchStrategy[Any]:
    """JSON values with up to three parts replaced or taken out, or with the text in one of them mutated."""
    return made_by(lambda rng: damaged_value(rng, rng.choice(samples)))


def objects(*samples: Any) -> st.SearchStrategy[dict[str, Any]]:
    """The same, but a JSON object each time: for readers that are given no other value."""
    return documents(*samples).map(lambda value: value if isinstance(value, dict) else {"value": value})


def json_texts(*samples: Any) -> st.SearchStrategy[str]:
    """JSON as text: of a damaged value, or damaged as text, which makes it deep, half or no JSON."""
    whole = [json.dumps(sample) for sample in samples]
    return made_by(
        lambda rng: (
            json.dumps(damaged_value(rng, rng.choice(samples)))
            if rng.random() < 0.6
            else _mutated(rng, whole, _text_part, LARGEST)
        )
    )


def json_bytes(*samples: Any) -> st.SearchStrategy[bytes]:
    """The same as bytes, and sometimes no UTF-8."""
    return json_texts(*samples).map(_encoded)


def settings(*samples: dict[str, str]) -> st.SearchStrategy[dict[str, str]]:
    """Settings of a connector, of which up to three are taken out, given to another, or mutated."""
    return made_by(lambda rng: _other_settings(rng, rng.choice(samples)))


def mutated_text(rng: random.Random, samples: Sequence[str], most: int = LARGEST) -> str:
    """One mutated text."""
    return _mutated(rng, samples, _text_part, most)


def _mutated(rng: random.Random, samples: Sequence[T], part: Callable[[random.Random], T], most: int) -> T:
    value = rng.choice(samples)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        value = _changed(rng, value, samples, part)
    return value[:most]


def _changed(rng: random.Random, value: T, samples: Sequence[T], part: Callable[[random.Random], T]) -> T:
    begin = rng.randrange(len(value) + 1)
    end = min(len(value), begin + int(rng.expovariate(0.1)))
    before, middle, after = value[:begin], value[begin:end], value[end:]
    other = rng.choice(samples)
    at = rng.randrange(len(other) + 1)
    put = rng.choice((part(rng), middle * rng.choice((2, 2, 3, 50, 2000)), other[at : at + rng.randrange(60)]))
    kind = rng.randrange(7)
    if kind == 0 and isinstance(value, str):
        return _other_number(rng, value)
    return (before + put + middle + after, before + put + after, before, before + after)[kind % 4]


def _other_number(rng: random.Random, text: str) -> str:
    numbers = list(_NUMBER.finditer(text[:LARGEST]))
    if not numbers:
        return text + rng.choice(_NUMBERS)
    one = rng.choice(numbers)
    return text[: one.start()] + rng.choice(_NUMBERS) + text[one.end() :]


def _text_part(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(_WORDS)
    if kind < 0.7:
        return rng.choice(_LONG) * rng.choice((100, 1500, 6000, 20_000))
    return "".join(chr(rng.randrange(0x250)) for _ in range(rng.randrange(1, 6)))


def _byte_part(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.5:
        return rng.randbytes(rng.randrange(1, 9))
    if kind < 0.7:
        return rng.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * rng.choice((1, 4, 8, 5000))
    return _encoded(_text_part(rng))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def damaged_value(rng: random.Random, good: Any) -> Any:
    """A copy with one to three parts replaced or taken out."""
    value = good
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(paths(value))
        value = replaced(value, path, _other(rng, _at(value, path)))
    return value


def _other(rng: random.Random, now: Any) -> Any:
    kind = rng.random()
    if kind < 0.25:
        return DELETED
    if isinstance(now, str) and kind < 0.65:
        return _mutated(rng, [now], _text_part, LARGEST)
    return some_json(rng)


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _other_settings(rng: random.Random, good: dict[str, str]) -> dict[str, str]:
    changed = dict(good)
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(sorted(good))
        match rng.randrange(4):
            case 0:
                changed.pop(name, None)
            case 1:
                changed[name] = good[rng.choice(sorted(good))]
            case 2:
                changed[_mutated(rng, [name], _text_part, 300)] = good[name]
            case _:
                changed[name] = _mutated(rng, [good[name]], _text_part, 3000)
    return changed
