"""Small recordings and a client for the tests of the viewer, which is run as `nacre view` runs it."""

import contextlib
import hashlib
import http.client
import io
import json
import socket
import threading
from dataclasses import dataclass
from unittest import mock

import numpy as np
import torch
from torch import nn

import nacre
from nacre import io as nacre_io
from nacre.inspect import Recording, record
from nacre.inspect.recording.description import Description
from nacre.inspect.recording.hooks import watching
from nacre.inspect.recording.layer_writer import Detail, LayerWriter
from nacre.inspect.recording.writer import RecordingWriter
from nacre.inspect.viewer import command as view
from nacre.inspect.viewer.app import make_app

WIDTH, HEADS, STEPS, SAMPLES = 8, 2, 40, 3
HOST = "127.0.0.1"
SECRET = b"the password is swordfish"


def words(text: str) -> list[str]:
    """Words apart by blanks; shorter than a list of them."""
    return text.split()


def sequences(samples=SAMPLES, steps=STEPS, seed=1):
    """Inputs [samples, steps, WIDTH] and stamps that do not start at 0."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, steps, WIDTH, generator=generator)
    return x, torch.rand(samples, steps, generator=generator).cumsum(1) + 100


@dataclass
class Example:
    """A recording, and what it was made of."""

    recording: Recording
    model: nn.Module
    x: torch.Tensor
    time: torch.Tensor


def one_layer(out, steps=STEPS) -> Example:
    """A layer alone, which a recording holds, so that it can have lesions."""
    torch.manual_seed(0)
    model = nacre.NAC(WIDTH, HEADS).eval()
    x, time = sequences(steps=steps)
    return Example(record(model, x, time, out=out), model, x, time)


class Two(nn.Module):
    """Two layers, the first of which runs twice."""

    def __init__(self):
        super().__init__()
        self.second, self.first = nacre.NAC(WIDTH, HEADS, share_backbone=True), nacre.NAC(WIDTH, 4)

    def forward(self, x, time=None):
        x = self.second(self.first(x, time=time) + 1, time=time)
        return self.first(x, time=time)

    def to_config(self):
        return {}

    @classmethod
    def from_config(cls, data):
        return cls()


@contextlib.contextmanager
def two_layers(out):
    """A model of two layers that nacre can save for as long as this lasts."""
    with mock.patch.dict(nacre_io._KINDS, {"viewer-two": Two}):
        torch.manual_seed(5)
        model = Two().eval()
        x, time = sequences(2, 13)
        yield Example(record(model, x, time, out=out), model, x, time)


class Strange(nn.Module):
    """A layer in a class that nacre cannot save: there is nothing to silence."""

    def __init__(self, width=WIDTH, **options):
        super().__init__()
        self.layer = nacre.NAC(width, 2, **options)

    def forward(self, x, time=None):
        return self.layer(x, time=time)


class Answers(nn.Module):
    """Two layers with names, two features, and two numbers for each step."""

    def __init__(self):
        super().__init__()
        self.first = nacre.NAC(12, 3, d_input=2, backbone_units=18)
        self.second = nacre.NAC(12, 2, backbone_units=22)
        self.head = nn.Linear(12, 2)

    def forward(self, x, time):
        return self.head(self.second(self.first(x, time=time), time=time))


def frames(out, steps=(7, 4), colours=3) -> tuple[Recording, list[np.ndarray]]:
    """Drives of different lengths, by hand: the layer sees the rows of each frame [5, 6] as one vector."""
    random, size = np.random.default_rng(3), (5, 6)
    images = [random.integers(0, 256, (n, *size, colours), dtype=np.uint8) for n in steps]
    model, layers = Strange(30 * colours), {}
    with RecordingWriter(out, len(steps), model) as writer:
        for sample, seen in enumerate(images):

            def observer(name, layer, sample=sample):
                if name not in layers:
                    layers[name] = LayerWriter(writer.new_layer(name), layer, "float32", Detail.MEANS, len(steps))
                layers[name].first = sample
                return layers[name]

            x, time = torch.from_numpy(seen), torch.arange(len(seen)) * 0.5 + 3
            with watching(model, observer), torch.no_grad():
                y = model(x.flatten(1).unsqueeze(0) / 255, time.unsqueeze(0))
            writer.put_inputs(sample, x, time, max(steps))
            writer.put("output", sample, 0, y[0].numpy(), max(steps))
            writer.put("truth", sample, 0, seen[:, 0, 0, 0].astype(np.int64), max(steps))
            writer.put("answer", sample, 0, y.mean(1).numpy(), 1)
        for layer in layers.values():
            layer.finish()
        about = Description("drives", tuple(f"drive {i}" for i in range(len(steps))), outputs=("steer",))
        writer.finish(about, {"x": list(steps), "output": list(steps)})
    return Recording(out), images


# The server


@contextlib.contextmanager
def serving(*recordings, hosts=()):
    """The port of a viewer that `serve` itself runs in a thread, on a free port."""
    made, addresses, real = [], [], view.uvicorn.Server

    def server(config):
        made.append(real(config))
        return made[0]

    with mock.patch.object(view.uvicorn, "Server", server):
        app = make_app([getattr(one, "recording", one) for one in recordings], hosts)
        thread = threading.Thread(target=view.serve, args=(app, HOST, 0, addresses.append), daemon=True)
        thread.start()
        wait_for(lambda: made and made[0].started)
    try:
        yield int(addresses[0].rstrip("/").rpartition(":")[2])
        assert thread.is_alive(), "the server is gone"
    finally:
        made[0].should_exit = made[0].force_exit = True
        thread.join(20)
    assert not thread.is_alive()


def wait_for(what, seconds=20):
    """Until something is the case."""
    pause = threading.Event()
    for _ in range(int(seconds * 100)):
        if what():
            return
        pause.wait(0.01)
    raise AssertionError(f"not within {seconds} s")


@dataclass
class Reply:
    """What a server answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def data(self):
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The message of a refusal in JSON."""
        assert list(self.data) == ["error"]
        return self.data["error"]


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8")


def write_request(port, target, method="GET", headers=(), body=b"", host=None):
    """A request as it goes over the wire: the target is sent as it is."""
    lines = [as_bytes(method) + b" " + as_bytes(target) + b" HTTP/1.1"]
    lines += [as_bytes(f"Host: {HOST}:{port}")] if host is None else [b"Host: " + as_bytes(h) for h in host]
    lines += [as_bytes(f"{name}: ") + as_bytes(value) for name, value in dict(headers).items()]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body


def exchange(port, data, timeout=30):
    """All bytes that come back on a bare socket until the server hangs up."""
    parts = []
    with socket.create_connection((HOST, port), timeout=timeout) as bare, contextlib.suppress(ConnectionError):
        bare.sendall(data)
        while part := bare.recv(65536):
            parts.append(part)
    return b"".join(parts)


def parse(data, method="GET") -> Reply:
    class Wire:
        def makefile(self, mode):
            return io.BytesIO(data)

    response = http.client.HTTPResponse(Wire(), method=method)
    response.begin()
    return Reply(response.status, response.headers, response.read())


def ask(port, target, method="GET", **request) -> Reply:
    """One request on a connection of its own."""
    return parse(exchange(port, write_request(port, target, method, **request)), method)


def post(port, lesions, query="", headers=None) -> Reply:
    """A request for lesions: data, or bytes as they are."""
    body = lesions if isinstance(lesions, bytes) else json.dumps(lesions).encode()
    given = {"Content-Type": "application/json"} if headers is None else headers
    return ask(port, f"/api/lesion?{query}", "POST", headers=given, body=body)


def digest(folder) -> dict[str, str]:
    """Every file of a folder and the hash of what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextlib.contextmanager
def viewing(folder):
    """A viewer of a layer and of frames, beside files that are nobody's business: the folder and the port.

    Raises:
        AssertionError: If something in the folder changed meanwhile.
    """
    shown = one_layer(folder / "layer"), frames(folder / "frames")[0]
    for place in (folder, folder / "layer", folder / "layer" / "page", folder / "page"):
        place.mkdir(exist_ok=True)
        (place / "secret.txt").write_bytes(SECRET)
    before = digest(folder)
    with serving(*shown, hosts=("viewer.lan",)) as port:
        yield folder, port
    assert digest(folder) == before, "something was written"


def assert_harmless(reply, folder):
    """The headers are there, and nothing of the machine is told."""
    headers = reply.headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers
    if reply.status >= 400:
        for told in (b"Traceback", b"site-packages", b".py", str(folder).encode(), SECRET):
            assert told not in reply.body
