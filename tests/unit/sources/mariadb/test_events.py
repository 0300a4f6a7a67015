"""Which changes a watermark covers, and where a statement stands, by MariaDB's GTIDs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition, covered, place_of

FILE = "maria-bin.000005"


def at(domains: str | None) -> Watermark:
    position = MariaDbPosition(FILE, 842, None if domains is None else Domains.parse(domains))
    return Watermark(position, "103/vm/3306/x=/1", datetime(2026, 11, 23, tzinfo=UTC))


@pytest.mark.parametrize(
    ("gtid", "held"),
    [
        ("0-7-12", True),
        ("0-9-1", True),  # another server wrote it: within a domain the number alone orders
        ("0-7-13", False),
        ("3-1-5", True),
        ("3-1-6", False),
        ("4-1-1", False),  # a domain of which W has nothing
    ],
)
def test_what_a_watermark_covers_is_up_to_its_number_in_each_domain(gtid: str, held: bool) -> None:
    origin, place = place_of(gtid, 7, FILE, 900) or (None, None)
    assert covered(at("0-7-12,3-1-5")).holds(origin, place) is held


def test_without_a_watermark_nothing_is_covered_and_one_without_gtids_is_refused() -> None:
    assert not covered(None).holds("0", (1, 0, 0))
    with pytest.raises(PositionError, match="without GTIDs"):
        covered(at(None))


def test_a_statement_without_a_gtid_stands_in_its_servers_files() -> None:
    assert place_of(None, 7, FILE, 900) == ("7/maria-bin", (5, 900, 0))
    assert place_of("not one", 7, FILE, 900) is None
    assert place_of(None, 7, None, None) is None
