"""`make supported`: the page of supported versions, made of what runs left in docs/evidence and of the versions that tests pin.

Only rows that ended well count: MATCH with nothing missing, left over or different; an Airflow that was left as it was. A version
that is in none of them is on no line of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from stack import versions

EVIDENCE: Final = Path(__file__).parents[1] / "docs" / "evidence"
PAGE: Final = EVIDENCE.parent / "supported-versions.md"
_RULE: Final = re.compile(r"\|(?:-+\|)+")
_NAMED: Final = re.compile(r"(.+?) v?(\d\S*)")
_ABOVE: Final = "the same"
_ENDED_WELL: Final = re.compile(r"Exit\s+status\s+0|exit status 0")
# as the first lines of a demo's page name what ran
_IN_DEMO: Final = re.compile(
    r"(MySQL|MariaDB connector|MariaDB|PostgreSQL|Kafka\s+and\s+Connect|Debezium|Spark|Iceberg|Airflow)\s+(\d[\w.]*\w)"
)
_CALLED: Final = {"Kafka and Connect": "Kafka, Kafka Connect", "MariaDB connector": "Debezium"}
_COUNTS: Final = ("missing", "ghosts", "different")

Row = Mapping[str, str]

HEAD: Final = """# Supported versions

`make supported` generates this page from the results in [Evidence](evidence/systems.md), and from the versions that the test stack pins. What is
on no line here was not run; [Executors and platforms](how-to/platforms.md) says what should work all the same.
"""


def tables(text: str) -> Iterator[Sequence[Row]]:
    """The tables of a page, each as its rows by the names of its columns."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if number and _RULE.fullmatch(line):
            names = _cells(lines[number - 1])
            rows = []
            for below in lines[number + 1 :]:
                if not below.startswith("|"):
                    break
                rows.append(dict(zip(names, _cells(below), strict=True)))
            yield rows


def recovered(text: str) -> dict[tuple[str, str], list[str]]:
    """(system, version) → the rows of `make systems` in which it was recovered."""
    done: dict[tuple[str, str], list[str]] = {}
    above = ""
    for row in next(tables(text)):
        above = row["version"] if row["version"] != _ABOVE else above
        if not _is_match(row):
            continue
        for part in above.split(", "):
            if match := _NAMED.fullmatch(part):
                done.setdefault((match[1], match[2]), []).append(row["system"])
    return done


def in_demos(pages: Mapping[str, str]) -> dict[tuple[str, str], list[str]]:
    """(system, version) → the pages of demos that name it in their first lines and ended with 0."""
    done: dict[tuple[str, str], list[str]] = {}
    for name, text in pages.items():
        head = text.split("\n\n")[1]
        if not _ENDED_WELL.search(head):
            continue
        for system, version in _IN_DEMO.findall(head):
            called = " ".join(system.split())
            done.setdefault((_CALLED.get(called, called), version), []).append(name)
    return done


def page(folder: Path = EVIDENCE) -> str:
    """The whole page."""
    systems = recovered((folder / "systems.md").read_text())
    demos = in_demos({path.stem: path.read_text() for path in sorted(folder.glob("demo-*.md"))})
    airflows = [row for row in next(tables((folder / "airflow-matrix.md").read_text())) if _left_alone(row)]
    catalogs = [row for row in next(tables((folder / "catalogs.md").read_text())) if _is_match(row)]
    return "\n".join(
        (
            HEAD,
            *_section(
                "Recovered, and compared row by row by other means",
                ("system", "version", "by"),
                [
                    (*key, _by(systems.get(key, []), demos.get(key, [])))
                    for key in sorted({*systems, *demos}, key=_order)
                ],
            ),
            *_section(
                "Airflow: the wheel installed, its DAGs, commands and page, and a recovery",
                ("Airflow", "Python", "tests", "recovery"),
                [
                    (row["Airflow"], row["Python"], f"[{row['tests']}](evidence/airflow-matrix.md)", row["recovery"])
                    for row in airflows
                ],
            ),
            *_section(
                "Catalogs of Iceberg, recovered into",
                ("catalog", "its tables", "warehouse"),
                [
                    (f"[{row['catalog']}](evidence/catalogs.md)", row["its tables"], row["warehouse"])
                    for row in catalogs
                ],
            ),
            *_section(
                "What the test stack runs, some of it only where a test asks for it", ("system", "versions"), _pinned()
            ),
        )
    )


def _pinned() -> list[tuple[str, ...]]:
    mysql = [one for name, one in versions.MYSQL_TESTED.items() if name not in versions.MARIADB]
    mariadb = [versions.MYSQL_TESTED[name] for name in sorted(versions.MARIADB)]
    return [
        ("Airflow", versions.AIRFLOW),
        ("MySQL", ", ".join(mysql)),
        ("MariaDB", ", ".join(mariadb)),
        ("PostgreSQL", ", ".join(one.removesuffix(".0") for one in versions.POSTGRES_TESTED.values())),
        ("Debezium", ", ".join(dict.fromkeys(versions.DEBEZIUM_OF.values()))),
        ("Debezium's engine, JdbcOffsetBackingStore", f"{versions.DEBEZIUM}, {versions.DEBEZIUM_JDBC}"),
        ("Kafka, Kafka Connect", f"{versions.KAFKA}; Connect {versions.KAFKA_CONNECT_OLD}"),
        ("Canal", versions.CANAL),
        ("Flink, Flink CDC", f"{versions.FLINK}, {versions.FLINK_CDC}"),
        ("Spark, Iceberg", f"{versions.SPARK}, {versions.ICEBERG}"),
        ("OpenSearch", versions.OPENSEARCH),
        ("Hudi, with Spark", f"{versions.HUDI}, {versions.SPARK_OF_HUDI}"),
        ("Java", f"{versions.JAVA_MINIMUM}"),
    ]


def _section(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _by(systems: Sequence[str], demos: Sequence[str]) -> str:
    found = [f"[{'; '.join(dict.fromkeys(map(_plain, systems)))}](evidence/systems.md)"] if systems else []
    return ", ".join((*found, *(f"[{name}](evidence/{name}.md)" for name in demos)))


def _plain(system: str) -> str:
    return system.removesuffix(", again")


def _order(key: tuple[str, str]) -> tuple[str, list[int], str]:
    """By the text last, so that 3.6.1 and 3.6.1.Final have one order, too."""
    return key[0].lower(), [int(number) for number in re.findall(r"\d+", key[1])], key[1]


def _is_match(row: Row) -> bool:
    return row["verdict"] == "MATCH" and all(row[name] == "0" for name in _COUNTS)


def _left_alone(row: Row) -> bool:
    return row["Airflow after `pip install`"] == "as it was" and "failed" not in row["tests"]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


if __name__ == "__main__":
    print(page(), end="")
