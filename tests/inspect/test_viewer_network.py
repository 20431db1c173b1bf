"""The viewer's server itself: garbage, half requests, slow clients, many at once, its start and its end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from nacre.inspect import Recording
from nacre.inspect.viewer import command as view
from nacre.inspect.viewer.app import make_app
from support.hypothesis import DEEP
from support.viewer import (
    HOST,
    ask,
    assert_harmless,
    exchange,
    one_layer,
    parse,
    post,
    serving,
    wait_for,
    write_request,
)

LESION = [{"group": "inter", "index": 0}]
CLIENTS = 50 if DEEP else 25
SERVE = """
import sys
from nacre.inspect import Recording
from nacre.inspect.viewer import app
from nacre.inspect.viewer.command import serve
app._BODY_TIMEOUT = 600  # half a request must not delay the end
serve(app.make_app([Recording(sys.argv[1])]), sys.argv[2], 0, lambda at: print(at, flush=True))
print("ended", flush=True)
"""


@pytest.fixture(scope="module")
def port(viewed):
    return viewed[1]


@contextmanager
def process(folder, host=HOST):
    """`serve` in a process of its own: the process, and the address that it told."""
    command = [sys.executable, "-c", SERVE, str(folder / "layer"), host]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        try:
            address = running.stdout.readline().decode().strip()
            assert address.startswith("http://"), running.stderr.read().decode()
            port = int(address.rstrip("/").rpartition(":")[2])
            wait_for(lambda: listens(port, host))
            yield running, address, port
        finally:
            running.kill()


def listens(port, host=HOST):
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def lives(port):
    """Whether it serves data, and lesions."""
    return ask(port, "/api/spread").status == 200 and post(port, LESION).status == 200


# What is no request


@pytest.mark.slow
def test_bytes_that_are_no_request_end_only_their_connection(port):
    lines = [
        b"GET",
        b"GET / HTTP/9.9",
        b"GET / FTP/1.1",
        b"GET  /  HTTP/1.1",
        b"PRI * HTTP/2.0\r\n\r\nSM",
        b"\r\n",
    ]
    lines += [b"GET \xc3\xa9 HTTP/1.1", b"GET / HTTP/1.1\r\nHost", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000]
    lines += [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more
        for more in (b"X: " + b"a" * 100_000, b" fold: 1", b"A b: 1")
    ]
    garbage = [b"\x00" * 100, b"\xff" * 5000, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"G" * 100_000]
    garbage += [line + b"\r\n\r\n" for line in lines] + [os.urandom(3000)]
    garbage += [write_request(port, "/")[:-2] + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz\r\n"]
    garbage += [write_request(port, "/api/lesion", "POST")[:-2] + b"Transfer-Encoding: gzip\r\n\r\nabc"]
    for data in garbage:
        with socket.create_connection((HOST, port), timeout=10) as bare:
            bare.sendall(data)
            bare.shutdown(socket.SHUT_WR)
            try:
                answer = bare.recv(4096)
            except ConnectionError:
                answer = b""
        assert b"Traceback" not in answer
        assert not answer or answer.startswith(b"HTTP/1.1 4"), (data[:60], answer[:100])
    assert lives(port)


def test_a_bad_chunk_in_a_body_ends_only_its_connection(port):
    head = write_request(port, "/api/lesion", "POST", headers={"Content-Type": "application/json"})[:-2]
    for chunk in (b"zz\r\nabc\r\n", b"-1\r\n", b"f" * 22 + b"\r\n", b"5;x\r\nabc\r\n0\r\n\r\n", b"\r\n\r\n"):
        answer = exchange(port, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
        assert not answer or answer.startswith(b"HTTP/1.1 4"), answer[:100]
    assert lives(port)


def test_a_websocket_is_refused(port):
    wants = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    wants += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    for path in ("/", "/api/about", "/api/lesion", "/ws"):
        request = write_request(port, path).replace(b"Connection: close\r\n", wants)
        assert parse(exchange(port, request)).status == 403
    wants = b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"
    request = write_request(port, "/api/about").replace(b"Connection: close\r\n", wants)
    assert parse(exchange(port, request)).status == 200
    assert lives(port)


def test_two_requests_on_one_connection_get_two_answers_in_order(port):
    first = write_request(port, "/api/spread?sample=99").replace(b"Connection: close\r\n", b"")
    answer = exchange(port, first + write_request(port, "/api/nothing"))
    assert answer.count(b"HTTP/1.1 ") == 2
    assert answer.index(b"sample must be") < answer.index(b"Not Found")


@pytest.mark.slow
def test_slow_and_silent_clients_do_not_keep_others_waiting(port):
    head = write_request(port, "/api/lesion", "POST", headers={"Content-Type": "application/json"})[:-2]
    starts = [b"", b"G", b"GET /api/about HTTP/1.1\r\nHost: 127", head, head + b"Content-Length: 500\r\n\r\n[{"]
    slow = [socket.create_connection((HOST, port), timeout=10) for _ in range(60)]
    try:
        for i, one in enumerate(slow):
            one.sendall(starts[i % len(starts)])
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            for i, one in enumerate(slow[2::5]):
                one.sendall(b"%d" % (i % 10))
            assert lives(port)
    finally:
        for one in slow:
            one.close()
    assert lives(port)


def test_a_client_that_does_not_read_keeps_nobody_waiting(port):
    with socket.create_connection((HOST, port), timeout=10) as deaf:
        request = write_request(port, "/api/steps?stop=40").replace(b"Connection: close\r\n", b"")
        deaf.setblocking(False)
        with suppress(BlockingIOError):
            while deaf.send(request * 20):
                pass
        assert lives(port)
    assert lives(port)


# Many at once


@pytest.mark.slow
def test_many_clients_at_once_are_served_or_told_to_wait(viewed):
    folder, port = viewed
    alone = {path: ask(port, path).body for path in ("/api/about", "/api/circuit?head=1", "/api/steps?stop=20")}
    start = threading.Barrier(CLIENTS)

    def client(number):
        start.wait(30)
        seen = []
        for i in range(2 if DEEP else 1):
            lesion = [{"group": "inter", "index": (number + i) % 8, "head": number % 2}]
            reply = post(port, lesion, f"sample={i % 3}&points=20")
            assert reply.status in (200, 503), reply.body
            assert reply.status == 200 or reply.error.startswith("too many lesions")
            seen.append(reply.status)
            assert ask(port, "/").status == 200
            assert ask(port, f"/api/frame?run=1&step={number % 7}").body.startswith(b"\x89PNG")
            for path, body in alone.items():
                assert ask(port, path).body == body
            assert ask(port, "/api/curves?sample=7").status == 400
        return seen

    with ThreadPoolExecutor(CLIENTS) as pool:
        seen = [status for one in pool.map(client, range(CLIENTS)) for status in one]
    assert 200 in seen
    assert lives(port)
    assert_harmless(ask(port, "/api/nothing"), folder)


def test_the_same_lesion_has_the_same_answer_whoever_asks_at_once(port):
    def one(i):
        reply = post(port, [{"group": "command", "index": i % 2}], "sample=1")
        return None if reply.status == 503 else (i % 2, reply.body)

    with ThreadPoolExecutor(12) as pool:
        answers = set(pool.map(one, range(48))) - {None}
    assert len(answers) == 2
    assert len({body for _, body in answers}) == 2


# The real thing


def memory(process):
    """Bytes that a process holds."""
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_serve_in_a_process_answers_until_it_is_interrupted(viewed):
    with process(viewed[0]) as (running, address, port):
        assert address == f"http://{HOST}:{port}/"
        assert lives(port)
        exchange(port, b"\x00\xff garbage\r\n\r\n")
        assert ask(port, "/api/curves?sample=-1").status == 400
        assert_harmless(ask(port, "/../secret.txt"), viewed[0])
        assert_memory_does_not_grow(running, port)
        with half_a_request(port):
            time.sleep(0.3)  # and the client leaves: not worth a traceback
        assert lives(port)
        running.send_signal(signal.SIGINT)
        out, errors = running.communicate(timeout=20)
    assert (running.returncode, out, errors) == (0, b"ended\n", b"")


@contextmanager
def half_a_request(port, host=HOST):
    """A connection on which lesions begin to come."""
    head = write_request(port, "/api/lesion", "POST", headers={"Content-Type": "application/json"})[:-2]
    with socket.create_connection((host, port)) as one:
        one.sendall(head + b"Content-Length: 100\r\n\r\n[{")
        yield


def assert_memory_does_not_grow(running, port):
    def some(count, shift):
        for i in range(count):
            lesion = [
                {"group": "inter", "index": (i + shift) % 8, "head": i % 2},
                {"group": "query", "index": i % 4},
            ]
            assert post(port, lesion, f"sample={i % 3}").status == 200
            for route in ("steps", "curves", f"neuron?column={i % 30}", "spread", "circuit"):
                assert ask(port, f"/api/{route}").status == 200
            assert ask(port, f"/api/spread?x={i}{'y' * 1000}").status == 400
            assert post(port, b"[" * 16_000).status == 400
            exchange(port, b"garbage\r\n\r\n")

    if os.path.exists("/proc/self/statm"):
        some(15 if DEEP else 8, 0)
        before = memory(running)
        some(35 if DEEP else 12, 3)
        assert memory(running) - before < (12 if DEEP else 6) * 2**20


def test_a_port_that_is_taken_and_a_host_that_is_none_are_told(viewed):
    app = make_app([Recording(viewed[0] / "layer")])
    for host, port in ((HOST, viewed[1]), ("192.0.2.1", 0), ("no-such-host.invalid", 0)):
        with pytest.raises(OSError, match=f"cannot listen on {host}, port {port} .*try --port 0"):
            view.serve(app, host, port, pytest.fail)


@pytest.mark.slow
@pytest.mark.skipif(not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"), reason="no IPv6")
def test_an_address_of_ipv6_is_served_and_ctrl_c_ends_it_although_a_request_is_half_there(viewed):
    with process(viewed[0], "::1") as (running, address, port):
        assert address == f"http://[::1]:{port}/"
        with half_a_request(port, "::1"):
            with socket.create_connection(("::1", port), timeout=10) as bare:
                bare.sendall(write_request(port, "/api/about", host=[f"[::1]:{port}"]))
                assert bare.recv(100).startswith(b"HTTP/1.1 200")
            running.send_signal(signal.SIGINT)
            running.wait(timeout=60)


@pytest.mark.slow
def test_a_damaged_recording_is_a_failure_without_a_trace_and_with_the_headers(tmp_path):
    one_layer(tmp_path / "layer")
    with serving(Recording(tmp_path / "layer")) as port:
        for path in (tmp_path / "layer" / "model").iterdir():
            path.write_bytes(b"damaged")
        for reply in (ask(port, "/api/circuit"), post(port, LESION)):
            assert reply.status >= 400
            assert_harmless(reply, tmp_path)
        assert ask(port, "/api/curves").status == 200


def test_the_page_can_be_opened_when_its_address_is_told(viewed):
    told = []

    def ready(at):
        told.append(listens(int(at.rstrip("/").rpartition(":")[2])))
        raise KeyboardInterrupt  # do not serve

    with pytest.raises(KeyboardInterrupt):
        view.serve(make_app([Recording(viewed[0] / "layer")]), HOST, 0, ready)
    assert told == [True]


def test_answers_are_sent_at_once(port, monkeypatch):
    made, real = [], socket.socket.accept

    def accept(self):
        made.append(real(self))
        return made[-1]

    monkeypatch.setattr(socket.socket, "accept", accept)
    with socket.create_connection((HOST, port)) as one:
        one.sendall(write_request(port, "/api/about").replace(b"Connection: close\r\n", b""))
        one.recv(100)
        assert made[0][0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_clients_that_say_nothing_cannot_keep_everybody_out(port):
    silent = [socket.create_connection((HOST, port), timeout=10) for _ in range(260)]
    try:
        for one in silent:
            one.sendall(b"GET / HTTP/1.1\r\n")
        assert ask(port, "/api/about").status == 200
    finally:
        for one in silent:
            one.close()


def test_json_is_json(port):
    for path in ("/api/about", "/api/steps", "/api/curves", "/api/circuit", "/api/spread", "/api/neuron?column=1"):
        reply = ask(port, path)
        assert reply.headers["content-type"] == "application/json"
        json.loads(reply.body, parse_constant=pytest.fail)
