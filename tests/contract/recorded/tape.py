"""What a client and a server of a database said to each other, byte by byte: recorded through a proxy, and played back.

A player expects from the client what the recorded one said, and answers as the server did; so driver and product run as they are. If the
product says anything else, the connection ends and the test fails. Nothing is encrypted, because what is recorded must be said again:
the proxy tells the client that the server has no TLS. Passwords that are sent with a random part are not compared.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Final, Protocol

HOST: Final = "127.0.0.1"
CLIENT, SERVER = "c", "s"
AGAIN: Final = "Does the product ask something else on purpose? Then record it again: make recordings."
_SIZE: Final = 65_536
# a played connection that says nothing for so long does not go on; a recorded one may
_LIMIT_S: Final = 10.0


@dataclass(slots=True)
class Talk:
    """One connection: who said what, in turns."""

    turns: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, who: str, data: bytes) -> None:
        """What was said next; a turn may come in pieces."""
        if self.turns and self.turns[-1][0] == who:
            self.turns[-1] = (who, self.turns[-1][1] + data)
        else:
            self.turns.append((who, data))

    def to_json(self) -> list[str]:
        return [who + base64.b64encode(data).decode() for who, data in self.turns]

    @classmethod
    def from_json(cls, value: list[str]) -> Talk:
        return cls([(one[0], base64.b64decode(one[1:])) for one in value])


class Wire(Protocol):
    """What a tape has to know of a database's protocol."""

    def greet(self, client: socket.socket, server: socket.socket, talk: Talk) -> None:
        """The first words through a proxy, without the offer of TLS."""

    def matches(self, client: socket.socket, talk: Talk, turn: int) -> str:
        """Read what the client says in place of this turn; "" if it is the same, else what it said."""


def exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes; fewer if the other side has ended."""
    read = b""
    while len(read) < size and (data := connection.recv(size - len(read))):
        read += data
    return read


def same(connection: socket.socket, expected: bytes) -> str:
    """Read what the client says; "" if it is what was expected, else what it said."""
    said = b""
    while said != expected and expected.startswith(said) and (data := connection.recv(len(expected) - len(said))):
        said += data
    return "" if said == expected else f"{said[:400]!r} in place of {expected[:400]!r}"


class MySql:
    """MySQL's and MariaDB's protocol: packets of three bytes of length, one of number, and a body."""

    _SSL: Final = 0x0800

    def greet(self, client: socket.socket, server: socket.socket, talk: Talk) -> None:
        head, said = _packet(server)
        body = bytearray(said)
        # version 10: its text up to a zero, the connection's number, salt, a zero, what it can do
        if body[:1] == b"\x0a":
            at = body.index(0, 1) + 1 + 4 + 8 + 1
            able = int.from_bytes(body[at : at + 2], "little") & ~self._SSL
            body[at : at + 2] = able.to_bytes(2, "little")
        talk.add(SERVER, head + bytes(body))
        client.sendall(head + bytes(body))

    def matches(self, client: socket.socket, talk: Talk, turn: int) -> str:
        _, expected = talk.turns[turn]
        if self._let_in(talk, turn):
            return same(client, expected)
        whole = all(head and len(body) == _size(head) for head, body in [_packet(client) for _ in _packets(expected)])
        return "" if whole else "nothing more while it asked to be let in"

    @staticmethod
    def _let_in(talk: Talk, turn: int) -> bool:
        """Whether the server has let the client in, or has refused it, before this turn."""
        before = [data for who, data in talk.turns[:turn] if who == SERVER][1:]
        return any(body[:1] in {b"\x00", b"\xff"} for data in before for body in _packets(data))


def _size(head: bytes) -> int:
    return int.from_bytes(head[:3], "little")


def _packet(connection: socket.socket) -> tuple[bytes, bytes]:
    """The next packet: its head and its body; less of them if the other side has ended."""
    head = exactly(connection, 4)
    return head, exactly(connection, _size(head))


def _packets(data: bytes) -> Iterator[bytes]:
    while data:
        size = _size(data)
        yield data[4 : 4 + size]
        data = data[4 + size :]


class Postgres:
    """PostgreSQL's protocol. A client may first ask for encryption, and is told that there is none."""

    _ASKS: Final = frozenset(number.to_bytes(4, "big") for number in (80_877_103, 80_877_104))

    def greet(self, client: socket.socket, server: socket.socket, talk: Talk) -> None:
        while (head := exactly(client, 8))[4:] in self._ASKS:
            talk.add(CLIENT, head)
            talk.add(SERVER, b"N")
            client.sendall(b"N")
        talk.add(CLIENT, head)
        server.sendall(head)

    def matches(self, client: socket.socket, talk: Talk, turn: int) -> str:
        return same(client, talk.turns[turn][1])


@contextmanager
def listening(work: Callable[[socket.socket], None], limit: float | None = _LIMIT_S) -> Iterator[int]:
    """The port of a server that does `work` with each connection, each in a thread of its own, until the end."""
    threads: list[Thread] = []
    opened: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            work(connection)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(limit)
                opened.append(connection)
                threads.append(Thread(target=serve, args=(connection,), daemon=True))
                threads[-1].start()

    with socket.create_server((HOST, 0)) as listener:
        threads.append(Thread(target=accept, args=(listener,), daemon=True))
        threads[0].start()
        try:
            yield listener.getsockname()[1]
        finally:
            for one in (listener, *opened):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(_LIMIT_S)


@contextmanager
def recording(wire: Wire, port: int, talks: list[Talk]) -> Iterator[int]:
    """The port of a proxy in front of a server, which adds each connection to `talks`."""
    lock = Lock()

    def relay(client: socket.socket) -> None:
        talk = Talk()
        with lock:
            talks.append(talk)
        with socket.create_connection((HOST, port), timeout=_LIMIT_S) as server:
            server.settimeout(None)
            wire.greet(client, server, talk)

            def pump(who: str, source: socket.socket, target: socket.socket) -> None:
                with suppress(OSError):
                    while data := source.recv(_SIZE):
                        with lock:
                            talk.add(who, data)
                        target.sendall(data)
                with suppress(OSError):
                    target.shutdown(socket.SHUT_WR)

            back = Thread(target=pump, args=(SERVER, server, client), daemon=True)
            back.start()
            pump(CLIENT, client, server)
            back.join(1.0)  # what the server still says; a stream may never end

    with listening(relay, None) as made:
        yield made


@contextmanager
def playing(wire: Wire, talks: list[Talk], wrong: list[str]) -> Iterator[int]:
    """The port of a server that answers as the recorded one did; `wrong` gets what a client said otherwise."""
    left, lock = iter(talks), Lock()

    def play(client: socket.socket) -> None:
        with lock:
            talk = next(left, None)
        if talk is None:
            wrong.append(f"one connection more than the {len(talks)} that were recorded. {AGAIN}")
            return
        for turn, (who, data) in enumerate(talk.turns):
            if who == SERVER:
                client.sendall(data)
            elif said := wire.matches(client, talk, turn):
                wrong.append(f"the client said {said}. {AGAIN}")
                return
        if more := client.recv(_SIZE):
            wrong.append(f"the client said more than was recorded: {more[:400]!r}. {AGAIN}")

    with listening(play) as made:
        yield made
