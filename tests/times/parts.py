"""What `make test` runs: its parts, which of them run beside each other, and how long each may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.times.order import workers_here

# each file with servers and a Spark session of its own
BY_FILE: Final = ("-n", str(workers_here()), "--dist", "loadfile")


@dataclass(frozen=True, slots=True)
class Part:
    """One command. `budget`: the seconds that it may take on two cores with nothing beside the run."""

    name: str
    command: tuple[str, ...]
    budget: float


def pytest(*words: str) -> tuple[str, ...]:
    """What runs tests in this environment."""
    return ("pytest", *words)


LINT: Final = Part("lint", ("make", "lint"), 90)
DOCS: Final = Part("docs", ("make", "docs"), 40)
UNIT: Final = Part("unit and contract", pytest("tests/unit", "tests/contract", "-n", "auto", "-m", "not slow"), 500)
INTEGRATION: Final = Part("integration", pytest("tests/faults", "tests/integration", "-m", "not slow", *BY_FILE), 1300)
# apart: a process has one Spark session, and that of the integration tests has another lake
ADVERSARY: Final = Part("adversary", pytest("tests/adversary", "-m", "not slow"), 150)
# apart, too: its session is on a cluster
CLUSTER: Final = Part("spark cluster", pytest("tests/spark_cluster"), 120)

# lanes of one step run beside each other, the parts of a lane one after the other; a step begins when the one before has
# passed. The first lane of a step is shown while it runs, the others when they have ended
STEPS: Final[tuple[tuple[tuple[Part, ...], ...], ...]] = (
    ((UNIT,), (LINT, DOCS, ADVERSARY, CLUSTER)),
    ((INTEGRATION,),),
)


def budget() -> float:
    """The seconds that a whole run may take: of each step its longest lane."""
    return sum(max(sum(part.budget for part in lane) for lane in lanes) for lanes in STEPS)
