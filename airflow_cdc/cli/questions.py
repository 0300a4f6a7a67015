"""What `airflow cdc init` may ask: the kinds of a new pipeline's parts, and what each kind asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_cdc.core.kind import Named
from airflow_cdc.core.setup import Question, Setup, flag
from airflow_cdc.kinds import CONNECTORS, CONTROLS, SINKS, SOURCES, TRANSPORTS, Kinds

# part of a pipeline → its kinds, in the order of the questions
PARTS: Final[Mapping[str, Kinds[Named]]] = {
    "source": SOURCES,
    "connector": CONNECTORS,
    "transport": TRANSPORTS,
    "sink": SINKS,
    "control": CONTROLS,
}
CONTROL: Final = "control"
TABLES = Question("tables", "Tables, as schema.table, comma-separated", example="shop.orders")
SPARK = Question("spark", "Spark master (only if spark_default is new)", "local[*]")


def setups(part: str) -> dict[str, Setup]:
    """The kinds of a part that can be asked about, by name: the built-in ones that say how."""
    kinds = PARTS[part]
    by_kind = {name: kinds[name].setup for name in kinds.built_in}
    return {name: setup.load() for name, setup in by_kind.items() if setup is not None}


def kind_question(part: str) -> Question:
    """Which kind a part is. Enter stands for the first."""
    names = list(setups(part))
    return Question(f"{part}_kind", f"What the {part} is: {' or '.join(names)}", names[0])


def of_kinds(kinds: Mapping[str, str]) -> Iterator[Question]:
    """What is asked about a pipeline whose parts are of these kinds."""
    for part, kind in kinds.items():
        yield from setups(part)[kind].questions
        if part == "source":
            yield TABLES


def example() -> str:
    """The flags that a pipeline of the first kinds cannot do without."""
    needed = of_kinds({part: kind_question(part).default for part in PARTS if part != CONTROL})
    return " ".join(f"{flag(one.key)} {one.example}" for one in needed if one.example)


def headed() -> Iterator[tuple[str, Question]]:
    """All questions there are, each a flag of the command, with the heading of its flag: the part, and which kind."""
    for part in PARTS:
        yield part, kind_question(part)
        if part == "source":
            yield part, TABLES
        for kind, setup in setups(part).items():
            yield from ((f"{part}: {kind}", question) for question in setup.questions)
    yield "spark", SPARK


def every() -> Iterator[Question]:
    """All questions there are."""
    return (question for _, question in headed())
