"""Regular expressions of other people's settings, matched in a limited time.

Python's engine tries `(a+)+b` on a name of 32 letters for 20 seconds, and no thread of the watch runs meanwhile. An expression
that may take so long is tried in a process of its own, which can be ended; nearly all are names and `.*`, and are tried here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache
from typing import Final

SECONDS: Final = 2.0
_FEW: Final = 3
_QUANTIFIERS: Final = re.compile(r"(?<!\\)[*+{]")
# a group that is repeated, or one that refers to what another one matched
_REPEATED: Final = re.compile(r"\)[*+{]|\\[1-9]|\(\?P=")
_TRIED: Final = (
    "import re, sys; pattern, text, flags = sys.stdin.buffer.read().decode('utf-8', 'surrogatepass').split(chr(0));"
    " sys.exit(10 if re.compile(pattern, int(flags)).fullmatch(text) else 11)"
)


class SlowPatternError(ValueError):
    """An expression that could not be tried on a text in time."""


def fits(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the expression matches the whole text. Raises SlowPatternError."""
    quick = len(_QUANTIFIERS.findall(pattern.pattern)) <= _FEW and not _REPEATED.search(pattern.pattern)
    if quick or "\0" in pattern.pattern + text:
        return pattern.fullmatch(text) is not None
    return _elsewhere(pattern.pattern, text, pattern.flags)


@lru_cache(maxsize=20_000)
def _elsewhere(pattern: str, text: str, flags: int) -> bool:
    given = "\0".join((pattern, text, str(flags))).encode("utf-8", "surrogatepass")
    try:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", _TRIED], input=given, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SlowPatternError(f"it takes longer than {SECONDS:g} s on a name of {len(text)} letters") from None
    return done.returncode == 10
