"""Messages that the simulator would never send, by kind. Shared by the tests of the Udacity server."""

import json

import numpy as np

from support.udacity_client import base64_of, event, jpeg, telemetry_data


def _with(file, **fields):
    return event("telemetry", telemetry_data(file) | fields)


def _without(file, name):
    return event("telemetry", {key: value for key, value in telemetry_data(file).items() if key != name})


def _noise(rng, length):
    """Bytes that no JPEG starts with."""
    return b"\x00" + rng.bytes(length)


def giant_header(file):
    """The same JPEG with a header that promises 65,535 x 65,535 pixels."""
    at = file.index(b"\xff\xc0")  # start of frame: marker, length, precision, height, width
    return file[: at + 5] + b"\xff\xff\xff\xff" + file[at + 9 :]


# Name -> (reason that the server gives, message from a good JPEG and a random generator).
KINDS = {
    "empty": ("packet", lambda file, rng: ""),
    "no digit": ("packet", lambda file, rng: "hello"),
    "unknown type": ("packet", lambda file, rng: "9"),
    "open from a client": ("packet", lambda file, rng: '0{"sid":"x"}'),
    "connect from a client": ("packet", lambda file, rng: "40"),
    "acknowledgement": ("packet", lambda file, rng: "431[]"),
    "binary event": ("packet", lambda file, rng: '451-["telemetry",{"_placeholder":true,"num":0}]'),
    "long ping": ("packet", lambda file, rng: "2" + "x" * 1000),
    "event that is no list": ("packet", lambda file, rng: '42{"telemetry":1}'),
    "event without a name": ("packet", lambda file, rng: "42[]"),
    "event of three": ("packet", lambda file, rng: event("telemetry", {}, {})),
    "other namespace": ("namespace", lambda file, rng: "42/admin," + _with(file)[2:]),
    "cut JSON": ("json", lambda file, rng: _with(file)[: int(rng.integers(20, 2000))]),
    "deep JSON": ("json", lambda file, rng: "42" + "[" * 100_000),
    "NaN of Python": ("json", lambda file, rng: '42["telemetry",{"speed":NaN,"image":""}]'),
    "other event": ("event", lambda file, rng: event("steer", {"steering_angle": "1"})),
    "data that is no object": ("fields", lambda file, rng: event("telemetry", [1, 2])),
    "no speed": ("fields", lambda file, rng: _without(file, "speed")),
    "no image": ("fields", lambda file, rng: _without(file, "image")),
    "speed nan": ("number", lambda file, rng: _with(file, speed="NaN")),
    "speed infinite": ("number", lambda file, rng: _with(file, speed="-Infinity")),
    "speed 1e400": (
        "number",
        lambda file, rng: event("telemetry", telemetry_data(file)).replace('"9.1250"', "1e400"),
    ),
    "speed huge": ("number", lambda file, rng: _with(file, speed=10**400)),
    "speed a list": ("number", lambda file, rng: _with(file, speed=[9.0])),
    "speed true": ("number", lambda file, rng: _with(file, speed=True)),
    "throttle a word": ("number", lambda file, rng: _with(file, throttle="full")),
    "image a number": ("image", lambda file, rng: _with(file, image=7)),
    "image no base64": ("image", lambda file, rng: _with(file, image="<<" + base64_of(file))),
    "image noise": ("image", lambda file, rng: _with(file, image=base64_of(_noise(rng, 500)))),
    "image cut": ("image", lambda file, rng: _with(file, image=base64_of(file[: len(file) // 2]))),
    "image empty": ("image", lambda file, rng: _with(file, image="")),
    "image small": (
        "image",
        lambda file, rng: _with(file, image=base64_of(jpeg(np.zeros((80, 160, 3), "uint8")))),
    ),
    "image grey": ("image", lambda file, rng: _with(file, image=base64_of(jpeg(np.zeros((160, 320), "uint8"))))),
    "image progressive": (
        "image",
        lambda file, rng: _with(file, image=base64_of(jpeg(np.zeros((160, 320, 3), "uint8"), progressive=True))),
    ),
    "image bomb": ("image", lambda file, rng: _with(file, image=base64_of(giant_header(file)))),
    "too long": ("size", lambda file, rng: "42" + json.dumps(["telemetry", {"x": "y" * 300_000}])),
    "binary": ("binary", lambda file, rng: rng.bytes(100)),
}
