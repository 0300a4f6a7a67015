"""The GTID algebra against the server's own GTID_SUBSET and GTID_SUBTRACT."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from airflow_cdc.core.errors import PositionError
from airflow_cdc.sources.mysql.gtid import GtidSet
from stack.mysql import MySqlServer

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "75ac0c48-7f6b-11f0-9c3a-0242ac110002"
PAIRS = 300


def tags_of(server: MySqlServer) -> Sequence[str]:
    """The tags to use: none before 8.3, which does not know tagged GTIDs."""
    ((version,),) = server.execute("SELECT VERSION()")
    return (
        ("", "backup", "_x1") if tuple(int(n) for n in str(version).split("-")[0].split(".")[:2]) >= (8, 3) else ("",)
    )


def random_text(rng: random.Random, tags: Sequence[str]) -> str:
    """Unmerged, unsorted, overlapping text, as a person or an old connector may have written it."""
    parts = []
    for _ in range(rng.randint(0, 5)):
        uuid, tag, lo = rng.choice((A, B, A.upper())), rng.choice(tags), rng.randint(1, 30)
        interval = str(lo) if rng.random() < 0.3 else f"{lo}-{lo + rng.randint(0, 8)}"
        parts.append(":".join(filter(None, (uuid, tag, interval))))
    return rng.choice((",", ",\n", ", ")).join(parts)


def test_algebra_agrees_with_the_server(mysql: MySqlServer) -> None:
    rng = random.Random(20261121)
    tags = tags_of(mysql)
    texts = [(random_text(rng, tags), random_text(rng, tags)) for _ in range(PAIRS)]
    selects = [
        f"SELECT {n}, GTID_SUBSET('{x}', '{y}'), GTID_SUBTRACT('{x}', '{y}'), GTID_SUBTRACT('{x}', '')"
        for n, (x, y) in enumerate(texts)
    ]
    answers = mysql.execute(" UNION ALL ".join(selects))
    assert len(answers) == PAIRS
    for number, subset, difference, normal in answers:
        x, y = (GtidSet.parse(text) for text in texts[number])
        assert x.issubset(y) is bool(subset), texts[number]
        assert str(x - y) == "".join(difference.split()), texts[number]
        assert str(x) == "".join(normal.split()), texts[number]


def test_the_servers_own_sets_are_read_and_printed_alike(mysql: MySqlServer) -> None:
    ((executed, purged),) = mysql.execute("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")
    assert str(GtidSet.parse(executed)) == "".join(executed.split())
    assert GtidSet.parse(purged).issubset(GtidSet.parse(executed))


@pytest.mark.parametrize("text", [f"{A}:0", f"{A}:x-y", f"{A[:-1]}:1", "nonsense", f"{A}:1;{B}:1", "0-1-100"])
def test_what_the_server_refuses_is_refused(mysql: MySqlServer, text: str) -> None:
    with pytest.raises(Exception, match="Malformed GTID set"):
        mysql.execute(f"SELECT GTID_SUBTRACT('{text}', '')")
    with pytest.raises(PositionError):
        GtidSet.parse(text)
