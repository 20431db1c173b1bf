"""Clients that stall are let go, whenever they do; one that is slow but goes on is not."""

import contextlib
import socket
import time

import pytest
import torch

import nacre
from nacre.inspect import record
from nacre.inspect.viewer import timeouts
from support.viewer import HOST, serving

WHOLE = f"GET /page/view.js HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
BODY = f"POST /lesion HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 99\r\n\r\n[".encode()


@pytest.fixture
def port(tmp_path, monkeypatch):
    monkeypatch.setattr(timeouts, "TIMEOUT", 0.4)
    with serving(record(nacre.NAC(8, 1, d_input=2), torch.randn(1, 20, 2), out=tmp_path / "look")) as port:
        yield port


def read_to_the_end(bare):
    """What comes until the server hangs up."""
    bare.settimeout(20)
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := bare.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "sent", [b"", WHOLE[:20], WHOLE, WHOLE + WHOLE[:20], WHOLE + WHOLE + b"G", BODY, WHOLE + BODY]
)
def test_a_client_that_stalls_is_let_go(port, sent):
    with socket.create_connection((HOST, port)) as bare:
        bare.sendall(sent)
        assert read_to_the_end(bare).count(b"HTTP/1.1 200") == sent.count(WHOLE)


def test_a_client_that_reads_no_answer_is_let_go(port):
    with socket.socket() as bare:
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        bare.connect((HOST, port))
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                bare.sendall(WHOLE)
                time.sleep(0.01)
            raise AssertionError("the server waits for ever")


def test_a_client_that_goes_on_stays(port):
    with socket.create_connection((HOST, port)) as bare:
        bare.settimeout(20)
        for _ in range(6):
            bare.sendall(WHOLE[:20])
            time.sleep(0.1)
            bare.sendall(WHOLE[20:])
            answer = b""
            while b"nacre.View" not in answer or b"window.nacre)" not in answer:
                part = bare.recv(65536)
                assert part, answer
                answer += part
            time.sleep(0.1)


def test_a_length_that_is_no_number_is_refused(port):
    for length in ("abc", "-1", "1e3", "٣", "", "9" * 30):
        with socket.create_connection((HOST, port)) as bare:
            bare.sendall(f"POST /lesion HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n".encode())
            assert read_to_the_end(bare)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 413"), length
