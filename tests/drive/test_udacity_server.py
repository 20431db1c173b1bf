"""The Udacity server over real sockets, with a client that behaves like the simulator."""

import asyncio
import contextlib
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosedOK, InvalidStatus

from nacre.drive.udacity import server
from nacre.drive.udacity.link import Link, Timeouts
from nacre.drive.udacity.server import ABOUT, LARGEST_READ, ServerOptions, serve
from nacre.drive.udacity.session import MANUAL, MAX_MESSAGE, SAFE, Session
from nacre.drive.udacity.speed_control import SpeedController
from support.udacity_client import (
    client,
    decode,
    jpeg,
    lean,
    logged,
    newcomer,
    random_image,
    running,
    steering,
    telemetry,
)

FILE = jpeg(random_image(np.random.default_rng(0)))
LEAN = f"{lean(decode(FILE)):.6f}"


@pytest.fixture(scope="module")
def port():
    """Port of a server that several tests share."""
    with running() as port:
        yield port


def read_all(port, request):
    """What the server answers to bytes on a bare socket, until it hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as bare:
        bare.sendall(request)
        parts = []
        while part := bare.recv(4096):
            parts.append(part)
    return b"".join(parts)


def test_a_client_is_greeted_with_a_session_a_namespace_and_the_safe_command(port):
    with newcomer(port) as one:
        handshake, connected, command = one.greeting()
    assert re.fullmatch(r'0\{"sid":"[0-9a-f]{20}","upgrades":\[\],.*\}', handshake)
    assert (connected, command) == ("40", SAFE)


def test_a_session_of_the_simulator_from_its_first_frame_to_its_disconnect(port):
    with logged() as lines, newcomer(port) as one:
        one.send(telemetry(FILE))  # the simulator does not wait for the greeting
        one.greeting()
        assert steering(one.read()) == LEAN
        assert one.ask("2") == "3"
        assert one.ask("2probe") == "3probe"
        assert one.ask('42["telemetry",null]') == MANUAL
        assert steering(one.ask(telemetry(FILE, speed="9,1250"))) == LEAN.replace(".", ",")
        one.send("41")
        assert one.read_all() == ([], 1000)
        assert any("disconnected: 2 frames driven, median" in line for line in lines)


def test_a_message_over_the_limit_is_refused_and_one_over_what_is_read_ends_only_its_connection(port):
    with client(port) as one:
        assert one.ask("4" * (MAX_MESSAGE + 1)) == SAFE
        assert steering(one.ask(telemetry(FILE))) == LEAN
        one.socket.send("4" * (LARGEST_READ + 1))
        assert one.read_all() == ([], 1009)
    with newcomer(port) as again:  # as the simulator does, at once
        assert again.greeting()[2] == SAFE
        assert steering(again.ask(telemetry(FILE))) == LEAN


def test_more_clients_than_are_served_are_turned_away(monkeypatch):
    monkeypatch.setattr(server, "MOST_CLIENTS", 2)
    with logged() as lines, running() as port, client(port) as first, client(port) as second:
        with newcomer(port) as third:
            assert third.read_all() == ([], 1013)
        for one in (first, second):
            assert steering(one.ask(telemetry(FILE))) == LEAN
    assert any("closed a connection, 2 clients are served already" in line for line in lines)


def test_text_that_is_no_utf8_ends_only_its_connection(port):
    with logged() as lines:
        with client(port) as one:
            one.socket.send(b"42\xff\xff", text=True)
            assert one.read_all() == ([], 1007)
        with client(port) as again:
            assert steering(again.ask(telemetry(FILE))) == LEAN
    assert any(line.startswith("WARNING") and "broke the WebSocket rules" in line for line in lines)


def test_clients_at_the_same_time_get_their_own_answers_and_their_own_speed_controller(port):
    with client(port) as slow, client(port) as fast:
        for _ in range(10):
            slow.send(telemetry(FILE, speed="10.0000"))
            assert fast.ask("nonsense") == SAFE
            assert steering(slow.read()) == LEAN
        with client(port) as fresh:
            assert '"throttle":"0.000000"' in fresh.ask(telemetry(FILE, speed="15.0000"))
        assert '"throttle":"0.000000"' not in slow.ask(telemetry(FILE, speed="15.0000"))


def test_a_driver_that_takes_too_long_costs_a_safe_command_and_no_more():
    go_on, steps = threading.Event(), iter([lambda: go_on.wait(20)])

    def driver(frame):
        next(steps, lambda: None)()
        return 0.5

    with logged() as lines, running(driver, timeouts=Timeouts(answer=0.3)) as port, client(port) as one:
        assert one.ask(telemetry(FILE)) == SAFE
        assert one.ask(telemetry(FILE)) == SAFE  # the thread is still busy with the first
        go_on.set()
        answers = {one.ask(telemetry(FILE)) for _ in range(5)} - {SAFE}  # on a busy machine, one more may be late
        assert {steering(answer) for answer in answers} == {"0.500000"}
    assert any("late: no answer of the driver within 0.3 s" in line for line in lines)


def test_a_bug_in_the_server_itself_costs_a_safe_command_and_is_logged(port, monkeypatch):
    monkeypatch.setattr("nacre.drive.udacity.session.parse_packet", lambda text: 1 / 0)
    with logged() as lines, client(port) as one:
        assert one.ask(telemetry(FILE)) == SAFE
        monkeypatch.undo()
        assert steering(one.ask(telemetry(FILE))) == LEAN
        one.send("41")
        one.read_all()
        assert any("the answer to a message failed" in line for line in lines)
        assert any("1 message refused: fault 1" in line for line in lines)


def test_the_driver_is_asked_by_one_thread_whoever_connects():
    threads = set()

    def driver(frame):
        threads.add(threading.get_ident())
        return 0.0

    with running(driver) as port, client(port) as one, client(port) as two:
        for _ in range(5):
            one.send(telemetry(FILE))
            two.send(telemetry(FILE))
            one.read(), two.read()
    assert len(threads) == 1


def test_a_simulator_that_falls_silent_is_told_of_once_and_gets_the_safe_command():
    timeouts = Timeouts(telemetry=0.1)
    with logged() as lines, running(timeouts=timeouts) as port, client(port) as one:
        assert one.read() == SAFE
        assert one.ask("2") == "3"  # a ping is no telemetry
        time.sleep(0.3)
        assert one.ask("2") == "3"  # and no second command came before it
        assert sum("no telemetry for 0.1 s" in line for line in lines) == 1
        assert steering(one.ask(telemetry(FILE))) == LEAN
        assert one.read() == SAFE
        assert sum("no telemetry for 0.1 s" in line for line in lines) == 2


def test_a_client_that_does_not_even_ping_is_given_up():
    with logged() as lines, running(timeouts=Timeouts(client=0.3)) as port, client(port) as one:
        assert one.read_all() == ([], 1000)
        assert any("given up, silent for 0.3 s" in line for line in lines)


def test_the_cars_are_stopped_when_the_server_ends():
    with contextlib.ExitStack() as longer:
        with running() as port:
            one = longer.enter_context(client(port))
            assert steering(one.ask(telemetry(FILE))) == LEAN
        assert one.read_all() == ([SAFE], 1001)


def test_a_frame_that_is_with_the_driver_when_the_server_ends_gets_the_safe_command():
    asked = threading.Event()

    def driver(frame):
        asked.set()
        time.sleep(0.3)
        return 0.5

    with contextlib.ExitStack() as longer:
        with running(driver) as port:
            one = longer.enter_context(client(port))
            one.send(telemetry(FILE))
            assert asked.wait(20)
        answers, _ = one.read_all()
    assert set(answers) == {SAFE}


class Script:
    """Stands for a connection: gives messages, keeps answers, then is closed."""

    remote_address = ("127.0.0.1", 1)

    def __init__(self, *messages):
        self.messages = list(messages)
        self.answers = []

    async def recv(self):
        if not self.messages:
            raise ConnectionClosedOK(None, None)
        return self.messages.pop(0)

    async def send(self, text):
        self.answers.append(text)


def test_a_connection_that_was_halted_answers_telemetry_with_the_safe_command_only():
    script = Script(telemetry(FILE), "2", '42["telemetry",null]')
    with ThreadPoolExecutor(1) as thread:
        link = Link(script, Session(lean, SpeedController(15.0)), thread, Timeouts(60.0, 60.0))
        link.halt()
        asyncio.run(link.run())
    assert script.answers[3:] == [SAFE, "3", SAFE]


def test_a_flood_of_refused_messages_logs_a_line_for_each_reason(port):
    with logged() as lines, client(port) as one:
        for _ in range(100):
            assert one.ask("nonsense") == SAFE
            assert one.ask("42{") == SAFE
        warnings = [line for line in lines if line.startswith("WARNING") and "refused" in line]
        assert 2 <= len(warnings) < 20  # two, and two more for every five seconds that this took


def test_a_web_page_may_not_connect_and_a_client_with_this_server_as_its_origin_may(port):
    for origin in ("http://example.org", "null", "http://localhost:8888"):
        with pytest.raises(InvalidStatus) as refused, newcomer(port, origin=origin):
            pass
        assert refused.value.response.status_code == 403, origin
    with client(port, origin=f"http://127.0.0.1:{port}") as one:
        assert one.ask("2") == "3"


def test_what_is_no_websocket_gets_a_short_plain_answer(port):
    assert ABOUT.startswith("This is nacre's server for the Udacity simulator.")
    for request, status in {
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n": b"426",
        b"GET /socket.io/?EIO=3&transport=polling HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n": b"426",
        b"POST /socket.io/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\nx": b"405",
        b"\x16\x03\x01\x00": b"405",
    }.items():
        head, _, body = read_all(port, request).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status), request
        assert b"text/plain" in head, request
        assert body == ABOUT.encode(), request
    with client(port) as one:
        assert one.ask("2") == "3"


def test_garbage_gets_no_answer_and_the_log_keeps_to_what_a_person_wants_to_know():
    with logged() as lines, running() as port:
        assert read_all(port, b"GARBAGE\r\n\r\n") == b""
    # A client of the test before may leave only now; one of this server would have a line "connected", too.
    assert [line for line in lines if " disconnected: " not in line] == [
        f"INFO waiting for the simulator on 127.0.0.1 port {port}; start it in autonomous mode",
        f"WARNING the released simulators connect to port 4567 only, this is port {port}",
    ]


def test_a_port_in_use_and_a_host_that_is_no_address_of_this_machine_are_named(port):
    with pytest.raises(OSError, match=rf"port {port} of 127.0.0.1 is in use; .*--port"):
        serve(lean, ServerOptions(port=port))
    with pytest.raises(OSError, match=r"can't listen on host '192.0.2.1'"):
        serve(lean, ServerOptions("192.0.2.1", port=0))


def test_options_out_of_range_are_refused():
    for options, said in (
        ({"port": 65536}, "port must be at most 65535"),
        ({"port": -1}, "port must be at least 0"),
        ({"target_speed": 0.0}, "target_speed must lie in"),
    ):
        with pytest.raises(ValueError, match=said):
            ServerOptions(**options)


def test_a_host_that_others_can_reach_is_warned_of():
    with logged() as lines, running(host="0.0.0.0"):
        pass
    assert any("0.0.0.0 can be reached from other machines" in line for line in lines)
    with logged() as lines, running():
        pass
    assert not any("other machines" in line for line in lines)
