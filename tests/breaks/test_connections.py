"""Connections that are reset amid a result, and a broker that goes amid a read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import pytest

from tests.breaks.conftest import MakeWorld
from tests.breaks.struck import APPLY, BACKFILL, NIGHTLY, REPAIR, Application, Cell, Fault, Strikes
from tests.breaks.worlds import Servers, waiting
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.timeout(1800)

READING = (APPLY, NIGHTLY, REPAIR, BACKFILL)
# bytes of the server's before the connection is reset: in the greeting, among the first answers, in results of rows
SOURCE_BYTES = (20, 3_000, 12_000, 60_000)
BROKER_BYTES = (20, 600, 3_000, 20_000)


def reset(proxy: Proxy, count: int, *, each: bool = False) -> Fault:
    @contextmanager
    def armed() -> Iterator[Callable[[], int]]:
        (proxy.each_after if each else proxy.after)(count)
        yield proxy.whole_again
        proxy.whole_again()

    return Fault(f"{'every' if each else 'one'} connection reset after {count:,} bytes", armed)


def gone(servers: Servers, count: int, seconds: float) -> Fault:
    """The broker is killed after so many bytes, and started again so many seconds later."""

    @contextmanager
    def armed() -> Iterator[Callable[[], int]]:
        threads: list[Thread] = []

        def kill() -> None:
            servers.kill_broker()
            threads.append(Thread(target=waiting(seconds, servers.restart_broker)))
            threads[0].start()

        servers.broker.after(count, kill)
        yield servers.broker.whole_again
        servers.broker.whole_again()
        for thread in threads:
            thread.join(120)

    return Fault(f"the broker killed after {count:,} bytes, back {seconds:.0f} s later", armed)


def cut_short(source: Proxy) -> list[Fault]:
    """Resets amid the results of a source."""
    return [*(reset(source, count) for count in SOURCE_BYTES), reset(source, 3_000, each=True)]


def check_noticed(cells: Sequence[Cell]) -> None:
    """Most of them struck, and at least one was noticed."""
    hit = [cell for cell in cells if cell.struck]
    assert len(hit) >= 3, cells
    assert any(cell.said for cell in hit), "no fault was noticed"


@pytest.fixture(scope="module")
def struck(followed: MakeWorld) -> Strikes:
    return followed("MySQL")


@pytest.fixture(scope="module")
def of_kafka(struck: Strikes) -> Strikes:
    return Strikes("Kafka", struck.world, struck.secrets)


@pytest.mark.parametrize("application", READING, ids=lambda one: one.name)
def test_a_result_of_mysql_that_is_cut_short(servers: Servers, struck: Strikes, application: Application) -> None:
    check_noticed(struck.strike(application, cut_short(servers.source)))


@pytest.mark.parametrize("application", READING, ids=lambda one: one.name)
def test_a_broker_that_goes_in_the_middle_of_a_read(
    servers: Servers, of_kafka: Strikes, application: Application
) -> None:
    cells = of_kafka.strike(application, [*(reset(servers.broker, n) for n in BROKER_BYTES), gone(servers, 3_000, 5)])
    assert sum(bool(cell.struck) for cell in cells) >= 3, cells
