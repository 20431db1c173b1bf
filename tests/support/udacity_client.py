"""A client that behaves like the simulator's, and what it sends. Shared by the tests of the Udacity server."""

import asyncio
import base64
import contextlib
import io
import json
import logging
import threading

import numpy as np
from PIL import Image
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from nacre.drive.udacity.link import Timeouts
from nacre.drive.udacity.server import ServerOptions, UdacityServer

FRAGMENT = 1016  # bytes; the simulator's WebSocket library sends messages in fragments of this size
ADDRESS = "ws://127.0.0.1:{}/socket.io/?EIO=4&transport=websocket"


def random_image(rng):
    """A smooth random image, uint8 [160, 320, 3]."""
    coarse = rng.integers(0, 256, (10, 20, 3), dtype=np.uint8)
    return np.repeat(np.repeat(coarse, 16, axis=0), 16, axis=1)


def jpeg(array, **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, "JPEG", **options)
    return file.getvalue()


def decode(file):
    return np.array(Image.open(io.BytesIO(file)))


def base64_of(file):
    return base64.b64encode(file).decode()


def telemetry_data(file, speed="9.1250"):
    """The fields that the simulator sends with a frame, in its order."""
    image = base64_of(file)
    return {"steering_angle": "-1.2500", "throttle": "0.3000", "speed": speed, "image": image}


def event(name, *data):
    return "42" + json.dumps([name, *data], separators=(",", ":"))


def telemetry(file, speed="9.1250"):
    return event("telemetry", telemetry_data(file, speed))


def lean(frame):
    """A driver: steers towards the darker half."""
    return (float(frame[:, :160].mean()) - float(frame[:, 160:].mean())) / 255


def steering(answer):
    """The steering of a `steer` answer, as the text that it is."""
    name, data = json.loads(answer.removeprefix("42"))
    assert name == "steer"
    assert set(data) == {"steering_angle", "throttle"}
    assert all(isinstance(value, str) for value in data.values())
    return data["steering_angle"]


class Client:
    """Sends text in fragments, as the simulator does, and reads one answer at a time."""

    def __init__(self, socket):
        self.socket = socket

    def send(self, text):
        if len(text) > FRAGMENT:
            self.socket.send(text[i : i + FRAGMENT] for i in range(0, len(text), FRAGMENT))
        else:
            self.socket.send(text)

    def read(self):
        return self.socket.recv(timeout=20)

    def read_all(self):
        """Everything that comes until the server closes, and the code that it closes with."""
        answers = []
        try:
            while len(answers) < 100:
                answers.append(self.read())
        except ConnectionClosed as closed:
            return answers, closed.rcvd.code
        raise AssertionError(f"the server does not close, it says {answers[-1]!r}")

    def ask(self, text):
        self.send(text)
        return self.read()

    def greeting(self):
        return [self.read() for _ in range(3)]


@contextlib.contextmanager
def newcomer(port, **options):
    """A client that has connected and read nothing."""
    with connect(ADDRESS.format(port), compression=None, proxy=None, **options) as socket:
        yield Client(socket)


@contextlib.contextmanager
def client(port, **options):
    """A client that has been greeted."""
    with newcomer(port, **options) as one:
        one.greeting()
        yield one


@contextlib.contextmanager
def running(driver=lean, **options):
    """A server in a thread of its own, on a free port; gives the port."""
    port = []
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    # Long waits by default, so that a slow machine fails no test; tests of waiting bring their own.
    options = {"timeouts": Timeouts(telemetry=60.0, answer=60.0)} | options
    server = UdacityServer(driver, ServerOptions(port=0, **options))

    def ready(number):
        port.append(number)
        started.set()

    thread = threading.Thread(target=loop.run_until_complete, args=(server.run(ready, stop),))
    thread.start()
    try:
        assert started.wait(20)
        yield port[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        alive = thread.is_alive()
        if not alive:
            loop.close()
    assert not alive


@contextlib.contextmanager
def logged():
    """The lines that the server logs, as they come."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(f"{record.levelname} {record.getMessage()}")
    log = logging.getLogger("nacre.drive")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
