"""`make fuzz`: every parser of foreign bytes and texts, on mutated samples of real ones."""

# before anything imports Airflow: the unit tests' own home and settings, so that no database of the machine is opened
from tests.unit import conftest as _conftest  # noqa: F401
