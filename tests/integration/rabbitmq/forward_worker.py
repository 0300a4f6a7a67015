"""A process that forwards a queue and stops, saying so, at one place of a batch, to be killed there.

forward_worker.py PLACE BATCH     the task as a line of JSON on stdin
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NoReturn

from airflow_cdc.transports.rabbitmq import forward as module
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint

CALLS = {"confirmed": "basic_cancel", "cancelled": "basic_ack"}


def stop(place: str) -> NoReturn:
    print(place, flush=True)
    while True:
        time.sleep(60)


def main(place: str, batch: int) -> None:
    """`batch`: the number of the batch in which it stops; 1 is the first."""
    task = json.loads(sys.stdin.readline())
    known, published, batches = module._Forwarder._known, module._Forwarder._publish, 0
    count = 0

    def begin(self: Any, messages: Any, *, is_last: bool) -> int:
        nonlocal batches, count
        if batches == batch and place == "acknowledged":
            stop(place)
        batches, count = batches + 1, 0
        if batches == batch:
            if place == "taken":
                stop(place)
            if place in CALLS:
                setattr(self.channel, CALLS[place], lambda *_, **__: stop(place))
        return known(self, messages, is_last=is_last)

    def publish(self: Any, body: bytes, headers: Any = None) -> None:
        nonlocal count
        if headers:
            published(self, body, headers)
            return
        if batches == batch and place == "published" and count == 4:
            stop(place)
        published(self, body)
        count += 1

    forwarder: Any = module._Forwarder
    forwarder._known, forwarder._publish = begin, publish
    module.forward(RabbitMqEndpoint(**task["endpoint"]), task["queue"], task["stream"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
