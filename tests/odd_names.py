"""Names of tables that databases allow and URIs, paths, catalogs or markup do not."""

from __future__ import annotations

from typing import Final

# MySQL and MariaDB allow these; PostgreSQL counts bytes, so it allows only 63 of the long one's characters.
ODD_TABLES: Final = (
    "Größe", "订单表", "a", "a#b", "a b", "a/b", "a%2Fb", 'a"b', "a~2Fb", "☃", "x" * 64, "订" * 64,
)  # fmt: skip
