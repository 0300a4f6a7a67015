"""A tape answers as the recorded server did, and a client that says anything else is told so."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.contract.recorded.tape import (
    CLIENT,
    HOST,
    SERVER,
    MySql,
    Postgres,
    Talk,
    exactly,
    listening,
    playing,
    recording,
)

ENCRYPTION = (8).to_bytes(4, "big") + (80_877_103).to_bytes(4, "big")
START = b"\x00\x00\x00\x09\x00\x03\x00\x00."


def packet(body: bytes, number: int = 0) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


def ask(port: int, *said: bytes) -> list[bytes]:
    """What is answered to each of these, in one connection."""
    with socket.create_connection((HOST, port), timeout=10) as client:
        answers = []
        for one in said:
            client.sendall(one)
            answers.append(client.recv(999))
        return answers


@pytest.fixture
def postgres() -> Iterator[int]:
    """A server that greets, and then answers each word by its capitals."""

    def serve(client: socket.socket) -> None:
        exactly(client, len(START))
        client.sendall(b"R")
        while said := client.recv(999):
            client.sendall(said.upper())

    with listening(serve) as port:
        yield port


def test_what_was_recorded_is_answered_again(postgres: int) -> None:
    talks: list[Talk] = []
    with recording(Postgres(), postgres, talks) as port:
        assert ask(port, ENCRYPTION, START, b"one", b"two") == [b"N", b"R", b"ONE", b"TWO"]
    wrong: list[str] = []
    kept = [Talk.from_json(talk.to_json()) for talk in talks]
    with playing(Postgres(), kept, wrong) as port:
        assert ask(port, ENCRYPTION, START, b"one", b"two") == [b"N", b"R", b"ONE", b"TWO"]
    assert wrong == []


@pytest.mark.parametrize("other", [(b"ane", b"two"), (b"one", b"t"), (b"one", b"two", b"three")])
def test_another_question_is_not_answered(other: tuple[bytes, ...]) -> None:
    talk = Talk([(CLIENT, b"one"), (SERVER, b"ONE"), (CLIENT, b"two"), (SERVER, b"TWO")])
    wrong: list[str] = []
    with playing(Postgres(), [talk], wrong) as port, socket.create_connection((HOST, port), timeout=10) as client:
        for one in other:
            client.sendall(one)
            client.shutdown(socket.SHUT_WR) if one == b"t" else client.recv(9)
        while client.recv(99):
            pass
    assert len(wrong) == 1
    assert "make recordings" in wrong[0]


def test_a_connection_more_than_were_recorded_is_told() -> None:
    wrong: list[str] = []
    with playing(Postgres(), [], wrong) as port, socket.create_connection((HOST, port), timeout=10) as client:
        assert client.recv(9) == b""
    assert wrong[0].startswith("one connection more than the 0")


def test_mysql_offers_no_encryption_through_the_proxy_and_how_a_client_is_let_in_is_not_compared() -> None:
    able = (0xFFFF).to_bytes(2, "little")
    greeting = b"\x0a8.0.15\x00" + b"\x01\x00\x00\x00" + b"saltsalt" + b"\x00" + able + b"rest"

    def serve(client: socket.socket) -> None:
        client.sendall(packet(greeting))
        client.recv(999)
        client.sendall(packet(b"\x00", 2))
        client.recv(999)
        client.sendall(packet(b"row", 1))

    def talk_to(port: int, password: bytes, question: bytes) -> tuple[bytes, bytes]:
        with socket.create_connection((HOST, port), timeout=10) as client:
            greeted = client.recv(999)
            client.sendall(packet(password, 1))
            client.recv(999)
            client.sendall(packet(question))
            return greeted, client.recv(999)

    talks: list[Talk] = []
    with listening(serve) as server, recording(MySql(), server, talks) as port:
        greeted, answer = talk_to(port, b"with salt", b"select")
    assert (greeted, answer) == (
        packet(greeting.replace(able, (0xF7FF).to_bytes(2, "little"))),
        packet(b"row", 1),
    )
    wrong: list[str] = []
    with playing(MySql(), talks, wrong) as port:
        assert talk_to(port, b"with another salt", b"select")[1] == packet(b"row", 1)
    assert wrong == []
    with playing(MySql(), talks, wrong) as port:
        assert talk_to(port, b"with salt", b"delete")[1] == b""
    assert "delete" in wrong[0]
