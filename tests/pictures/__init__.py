"""What the pictures of the page are made of, so that one which is older than its template is noticed."""

from __future__ import annotations

import hashlib
from typing import Final

from tests.paths import ROOT

_PAGE: Final = ("airflow_cdc/templates/*.j2", "airflow_cdc/templates/*.css")


def made_of() -> dict[str, str]:
    """Each file that decides how the page looks, and its checksum."""
    files = sorted(path for pattern in _PAGE for path in ROOT.glob(pattern))
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in files}
