"""Names: of the alias that readers use, and of the indexes behind it."""

from __future__ import annotations

import hashlib
import re
from typing import Final

# every index of ours; also the pattern that a role must allow
PREFIX: Final = "cdc-"
RECORDS: Final = "cdc_records"
CONTROL: Final = "cdc_control"
LETTERS: Final = "cdc_dead_letters"
FIRST: Final = "first"
STAGE_NAMESPACE: Final = "cdc_stage"
_MOST: Final = 80


def alias_of(namespace: str, table: str) -> str:
    """The alias of a table."""
    return f"{namespace}.{table}"


def index_of(namespace: str, table: str, label: str) -> str:
    """The index of one try of a table. A name of an index is lower case, so a hash tells tables apart."""
    return f"{prefix_of(namespace, table)}{label}"


def prefix_of(namespace: str, table: str) -> str:
    """What the names of all indexes of a table begin with."""
    alias = alias_of(namespace, table)
    slug = re.sub(r"[^a-z0-9_]", "_", alias.lower())[:_MOST]
    return f"{PREFIX}{slug}-{hashlib.sha256(alias.encode()).hexdigest()[:8]}-"
