"""Free loopback ports."""

from __future__ import annotations

import socket
from contextlib import ExitStack

HOST = "127.0.0.1"

# the stack itself takes free ports; docker-compose.yaml publishes these on the loopback interface
COMPOSE_PORTS = {"mysql": 3306, "kafka": 9092, "connect": 8083, "spark-master": 7077, "airflow": 8080}


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that nothing listens on now; all are held until the last is found, so they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)]
        for sock in sockets:
            sock.bind((HOST, 0))
        return tuple(int(sock.getsockname()[1]) for sock in sockets)


def free_port() -> int:
    """One free port."""
    return free_ports(1)[0]
