"""Faults of the product that the suite finds and that are being mended: switched off in the seeds of `make test`.

A switch (schema.SWITCHES) with its reason, for as long as it takes; the change that mends the fault takes its line out.
"""

from __future__ import annotations

KNOWN: dict[str, str] = {}
