"""`python -m tests.integration.wire_worker FOLDER` writes the recordings of connectors that ran with Confluent's Protobuf converter.

FOLDER is a place of `plugin.path`: a folder in it holds the converter's classes and what they need. No Maven repository has them;
docs/evidence/decoding.md says how they are built. Their registry is Apicurio's, by Confluent's interface.
"""

from __future__ import annotations

import sys
from typing import Final

from tests.integration.wire_records import ADJUSTED, LEGAL, PRECISE, SIDES, Wanted, both, main

PROTOBUF: Final = "io.confluent.connect.protobuf.ProtobufConverter"
# as docs/how-to/connect-variants.md says; without the second one a NULL would be sent as its column's default
SHOWN: Final = {
    f"{side}.converter.{name}": "true"
    for side in SIDES
    for name in ("optional.for.nullables", "ignore.default.for.nullables")
}
# of PostgreSQL without the table of every type: the converter fails at a NULL in a list
TABLES: Final[dict[str, tuple[str, ...]]] = {"mysql": ("every", "t", "bare"), "postgres": ("t", "bare")}


def follows() -> dict[str, list[Wanted]]:
    """A connector of each source."""
    settings = PRECISE | ADJUSTED | LEGAL | SHOWN
    forms = both("confluent", PROTOBUF)
    return {
        source: [Wanted(f"{source}-protobuf-worker", settings, tables=tables, forms=forms)]
        for source, tables in TABLES.items()
    }


if __name__ == "__main__":
    main(follows(), sys.argv[1])
