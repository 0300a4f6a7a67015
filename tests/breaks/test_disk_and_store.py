"""A disk that fills under stages, reports and control, and an object store that is overloaded or refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from airflow_cdc.control import control
from airflow_cdc.sinks.iceberg import catalog
from stack.object_store import ObjectStore
from tests.breaks.conftest import LakeAndSpark, MakeWorld
from tests.breaks.full_disk import Disk, small_disk
from tests.breaks.store_proxy import Refusal, StoreProxy
from tests.breaks.struck import APPLY, MAINTAIN, NIGHTLY, REPAIR, Application, Fault, Strikes
from tests.breaks.worlds import add_catalog, in_s3, lake_in

pytestmark = pytest.mark.timeout(1800)

WRITING = (APPLY, REPAIR, NIGHTLY, MAINTAIN)
# bytes that are left on the disk of each: none, enough for a first file, for some of those of one commit
LEFT = {"lake": (0, 8_192, 40_960), "control": (0,), "reports": (0,)}


def full(disk: Disk, left: int, what: str) -> Fault:
    @contextmanager
    def armed() -> Iterator[Callable[[], int]]:
        with disk.filled(left):
            since = time.time_ns()
            yield lambda: disk.touched(since)

    return Fault(f"the disk of {what} full but for {left:,} bytes", armed)


def refusing(proxy: StoreProxy, name: str, made: Callable[[], Refusal]) -> Fault:
    @contextmanager
    def armed() -> Iterator[Callable[[], int]]:
        refusal = proxy.refusal = made()
        try:
            yield lambda: refusal.struck
        finally:
            proxy.refusal = None

    return Fault(name, armed)


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Disk]]:
    with ExitStack() as opened:
        folder = tmp_path_factory.mktemp("disks")
        yield {name: opened.enter_context(small_disk(folder / name, 48)) for name in ("lake", "control", "reports")}


@pytest.fixture(scope="module")
def on_disks(local: LakeAndSpark, followed: MakeWorld, disks: dict[str, Disk]) -> Strikes:
    warehouse = disks["lake"].folder / "warehouse"
    warehouse.mkdir()
    lake = lake_in("small", disks["control"].folder, {"warehouse": f"file://{warehouse}"})
    add_catalog(local.spark, lake)
    return followed("disk", lake, disks["reports"].folder)


@pytest.fixture(scope="module")
def in_store(
    local: LakeAndSpark,
    followed: MakeWorld,
    store: tuple[ObjectStore, StoreProxy],
    tmp_path_factory: pytest.TempPathFactory,
) -> Strikes:
    lake = lake_in("kept", tmp_path_factory.mktemp("catalog"), in_s3(store[0]))
    add_catalog(local.spark, lake)
    return followed("S3", lake)


@pytest.mark.parametrize("application", WRITING, ids=lambda one: one.name)
@pytest.mark.parametrize("what", LEFT)
def test_a_disk_that_fills(on_disks: Strikes, disks: dict[str, Disk], application: Application, what: str) -> None:
    """With no byte left, whatever has to write there says so."""
    cells = on_disks.strike(application, [full(disks[what], left, what) for left in LEFT[what]])
    if what == "lake" and application in (APPLY, REPAIR):
        assert cells[0].said, cells


PASSING = {
    "one request answered 503": lambda: Refusal(503, skip=3, times=1),
    "one PUT answered 503": lambda: Refusal(503, "PUT", times=1),
    "one PUT done and answered 503": lambda: Refusal(503, "PUT", skip=1, times=1, done=True),
    "one DELETE answered 503": lambda: Refusal(503, "DELETE", times=1),
}
LASTING = {
    "every PUT answered 503": lambda: Refusal(503, "PUT"),
    "every PUT from the third on answered 403": lambda: Refusal(403, "PUT", skip=2),
    "every request answered 403": lambda: Refusal(403),
    "every request from the sixth on answered 503": lambda: Refusal(503, skip=5),
}


@pytest.mark.parametrize("application", WRITING, ids=lambda one: one.name)
def test_an_object_store_that_refuses_once(
    in_store: Strikes, store: tuple[ObjectStore, StoreProxy], application: Application
) -> None:
    cells = in_store.strike(application, [refusing(store[1], name, made) for name, made in PASSING.items()])
    assert sum(bool(cell.struck) for cell in cells) >= 2, cells


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is overloaded for good is asked for 10 s instead of a minute, several times in each run."""
    for module in (control, catalog):
        monkeypatch.setattr(module, "COMMIT_SECONDS", 10.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("application", WRITING, ids=lambda one: one.name)
def test_an_object_store_that_refuses_for_good(
    in_store: Strikes, store: tuple[ObjectStore, StoreProxy], application: Application
) -> None:
    cells = in_store.strike(application, [refusing(store[1], name, made) for name, made in LASTING.items()])
    # tables that are small already: only the time of the step is written, and a time that is lost is a warning
    nothing_due = {cell.fault for cell in cells if application is MAINTAIN and "PUT" in cell.fault}
    assert all(cell.said for cell in cells if cell.struck and cell.fault not in nothing_due), cells
    assert sum(bool(cell.struck) for cell in cells) >= 3, cells
