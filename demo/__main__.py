"""`make demo`: one purge, recovered and proven, on real servers, from nothing."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from functools import partial
from pathlib import Path

from rich.console import Console

from demo.makes import MAKES
from demo.show import Show
from demo.sinks import LAKE, sinks
from demo.story import fill_and_connect, tell
from demo.world import World, airflow_settings
from stack import cluster, connect
from stack.airflow import AirflowServer
from stack.cluster import Stack
from stack.errors import StackError, UnavailableError

FOLDER = Path("build/demo")


def main() -> int:
    """Run the demo. 0: MATCH and the independent check agrees; 1: not; 2: the servers can't be had here."""
    arguments = _arguments()
    sink = sinks()[arguments.sink]
    show, began = Show(Console(highlight=False, emoji=False)), time.monotonic()

    def begin(stack: Stack) -> None:
        world = World(stack.folder, stack, sink)
        up = f"{world.shop.title} {world.shop.server.version}, {sink.title}Kafka and Connect with Debezium are up, Airflow is starting"
        show.line(up, time.monotonic() - began)
        fill_and_connect(world, show, arguments.rows)

    try:
        _clean()
        # the story asks nobody and watches nothing, so only who keeps the servers needs the triggerer
        settings = partial(airflow_settings, deferring=arguments.keep, sink=sink)
        make = MAKES[arguments.source]
        # the peer is to have what it has elsewhere, so Connect runs with the options that Kafka ships
        with cluster.start(
            FOLDER,
            (*make.services, *sink.services),
            keep=arguments.keep,
            airflow_settings=settings,
            meanwhile=begin,
            connect_java=connect.AS_SHIPPED,
            connect_plugins=sink.plugins,
            **make.servers(),
        ) as stack:
            world, airflow = World(stack.folder, stack, sink), _there(stack.airflow)
            show.line("Airflow is up", stack.seconds["ready"])
            good = tell(world, airflow.client(), show)
            show.line("the demo took", time.monotonic() - began)
            if arguments.keep:
                show.addresses(world, airflow)
    except UnavailableError as error:
        show.problem(str(error))
        return 2
    except StackError as error:
        show.problem(str(error))
        return 1
    return 0 if good else 1


def _there(airflow: AirflowServer | None) -> AirflowServer:
    if airflow is None:
        raise StackError("the stack has no Airflow")
    return airflow


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows in all tables together")
    parser.add_argument("--source", choices=sorted(MAKES), default="mysql", help="what the shop is kept in")
    parser.add_argument("--sink", choices=sorted(sinks()), default=LAKE.kind, help="what the copies are kept in")
    parser.add_argument("--keep", action="store_true", help="leave the servers running and print their addresses")
    arguments = parser.parse_args()
    if arguments.sink != LAKE.kind and arguments.source != "mysql":
        parser.error(f"the story of {arguments.sink} is told from mysql alone")
    return arguments


def _clean() -> None:
    """Remove what an earlier demo left, and end its servers if it was kept."""
    if (FOLDER / "stack.json").exists():
        cluster.wipe(FOLDER)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)


if __name__ == "__main__":
    sys.exit(main())
