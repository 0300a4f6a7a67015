"""Ctrl-C ends a command at any moment, also at one at which Python would drop a KeyboardInterrupt."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

# two seconds on a machine at rest; a hold that missed its Ctrl-C went on for its whole time, here 600 s
WITHIN_S = 10.0
# A hold by hand over a lock that says where it is; its server never answers at the moment that is named.
HOLDING = """
import sys, threading, time
from types import SimpleNamespace
from airflow_cdc.cli.interrupt import ctrl_c, until_over
from airflow_cdc.core.hold import HoldState, HoldStatus
from airflow_cdc.flows.hold import hold_by_hand

HELD = HoldState("shop:by hand", HoldStatus.HELD, blocks_purge=True)


def say(line):
    print(line, flush=True)


class Dropping:
    def __del__(self):  # an exception in here is printed and dropped
        say("at this moment")
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass


class Lock:
    def at(self, moment):
        if moment == sys.argv[1] == "tick":
            Dropping()
        elif moment == sys.argv[1]:
            say("at this moment")
            time.sleep(600)

    def acquire(self):
        self.at("acquire")
        return HELD

    def tick(self):
        self.at("tick")
        return HELD

    def release(self, reason=""):
        say("released")
        self.at("release")
        return HELD


source = SimpleNamespace(hold=lambda *_: Lock())
run = SimpleNamespace(pipeline=SimpleNamespace(name="shop"), clients=SimpleNamespace(source=source))
with ctrl_c() as over:
    until_over(over, lambda: hold_by_hand(run, 600.0, say, over))
"""


# the moment → what the process says when it comes
MOMENTS = {
    "acquire": "at this moment",
    "say": "the log is held",
    "tick": "at this moment",
    "release": "the log is held",
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_hold_is_let_go_within_two_seconds_of_ctrl_c_at_any_moment(moment: str, number: signal.Signals) -> None:
    """A server that does not answer frees the lock when the process, and with it the connection, has ended."""
    argv = [sys.executable, "-c", HOLDING, moment]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(MOMENTS[moment] in line for line in process.stdout), process.communicate()
        sent = time.monotonic()
        process.send_signal(number)
        process.wait(timeout=60)
        took = time.monotonic() - sent
        assert took < WITHIN_S
        assert ("released" in process.stdout.read()) is (moment != "acquire")
