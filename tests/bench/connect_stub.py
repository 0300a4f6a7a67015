"""`python -m tests.bench.connect_stub COUNT`: so many Kafka Connect workers, each on a port of its own, in one process.

They answer over real HTTP what a worker answers of one connector that runs at the position given on standard input (JSON),
until they are told to fail (`PUT /fail`). The ports are printed, one JSON list. The process ends with its standard input.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "bench",
    "heartbeat.interval.ms": "1000",
    "tasks.max": "1",
}
TRACE = "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler"


def worker(offset: dict[str, Any]) -> ThreadingHTTPServer:
    """One worker with one connector."""
    failed = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def do_PUT(self) -> None:
            failed.set()
            self._send({})

        def do_GET(self) -> None:
            name, what = self.path.split("/")[2:4]
            task = {"id": 0, "state": "FAILED", "trace": TRACE} if failed.is_set() else {"id": 0, "state": "RUNNING"}
            answers: dict[str, Any] = {
                "status": {"name": name, "connector": {"state": "RUNNING"}, "tasks": [task]},
                "config": {"name": name, **CONFIG},
                "offsets": {"offsets": [{"partition": {"server": "bench"}, "offset": offset}]},
            }
            self._send(answers[what])

        def _send(self, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Start them, say where they are, and wait for the end of standard input."""
    offset = json.loads(sys.stdin.readline())
    servers = [worker(offset) for _ in range(int(sys.argv[1]))]
    print(json.dumps([server.server_address[1] for server in servers]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
