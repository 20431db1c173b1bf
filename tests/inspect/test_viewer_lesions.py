"""Lesions that the viewer is asked for: what it takes, what it refuses and why, and how much at once."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nacre.inspect import Lesion, Recording
from nacre.inspect.analysis.rerun import Rerun
from nacre.inspect.viewer import lesions as view_lesions
from nacre.inspect.viewer.lesions import MOST, LesionQueue, TooManyRequests
from nacre.inspect.viewer.query import BadRequest
from nacre.inspect.viewer.request_checks import LARGEST_BODY
from nacre.inspect.viewer.source import ViewerSource
from support.viewer import (
    HEADS,
    STEPS,
    ask,
    assert_harmless,
    exchange,
    parse,
    post,
    wait_for,
    words,
    write_request,
)

LESION = b'[{"group": "inter", "index": 0}]'


@pytest.fixture(scope="module")
def port(viewed):
    return viewed[1]


@pytest.fixture(scope="module")
def folder(viewed):
    return viewed[0]


# Lesions


@pytest.mark.slow
def test_lesions_that_are_none_are_refused_with_a_reason(port, folder):
    good = {"group": "inter", "index": 0}
    sizes = dict(ask(port, "/api/about").data["runs"][0]["layers"][0]["groups"])
    wrong = {
        "lesions must be a list": [{}, good, None, 1, "inter", [], True, [good] * (MOST + 1), {"0": good}],
        "a lesion has group": [[1], ["inter"], [None], [[good]], [{**good, "layer": "nac"}], [{**good, "": 1}]],
        "group must be one of": [
            *([{}], [{"index": 1}], [{"group": 1}], [{"group": None}], [{"group": ["inter"]}], [{"group": {}}]),
            *([{"group": name}] for name in ("Inter", "sensory", "../inter", "inter\0", "")),
        ],
        f"index must be from 0 to {sizes['inter'] - 1} among the inter neurons": [
            [{"group": "inter", "index": i}]
            for i in (True, False, 0.0, 1.5, "0", -1, sizes["inter"], 10**18, [0], {})
        ],
        "head must be from 0 to 1": [[{**good, "head": i}] for i in (True, 0.0, "0", -1, HEADS, 10**30, [], {})],
        "target has group and index": [
            [{**good, "target": t}]
            for t in (0, [], "motor", {}, {"group": "motor"}, {"index": 0}, ["motor", 0], True)
        ]
        + [[{**good, "target": {"group": "motor", "index": 0, "head": 0}}]],
        "a synapse leads from one neuron to one neuron": [
            [{"group": "inter", "target": {"group": "motor", "index": 0}}],
            [{**good, "target": {"group": "motor", "index": None}}],
        ],
        f"index must be from 0 to {sizes['motor'] - 1} among the motor": [
            [{**good, "target": {"group": "motor", "index": i}}] for i in (True, 2, -1, "1")
        ],
        "value neurons have no synapses": [[{"group": "value", "index": 0, "target": good}]],
        "target must be one of": [[{**good, "target": {"group": "query", "index": 0}}]],
        "there is no synapse from motor 0 to inter 0": [[{"group": "motor", "index": 0, "target": good}]],
    }
    for reason, bodies in wrong.items():
        for body in bodies:
            for sent in (body, [good, *body]) if isinstance(body, list) and len(body) == 1 else (body,):
                reply = post(port, sent)
                assert reply.status == 400, sent
                assert reply.error.startswith(reason), (sent, reply.error)
                assert_harmless(reply, folder)
    assert post(port, [good] * MOST).status == 200
    assert post(port, [good]).status == 200


@pytest.mark.slow
def test_a_body_that_is_no_json_is_refused(port, folder):
    bodies = b"[ {}x 'a' [,] \xff\xfe\xfd group=inter <x/> \xef\xbb\xbf[] [\"\\ud800".split()
    bodies += [b"", b" ", b"\x00" * 50, b"[" * LARGEST_BODY, b'{"a":' * 3000, b"[" * 8000 + b"]" * 8000]
    bodies += [b"[" + b"9" * 10000 + b"]"]
    for body in bodies:
        reply = post(port, body)
        assert reply.status == 400, body[:20]
        assert "lesion" in reply.error
        assert_harmless(reply, folder)
    for odd in b'[NaN] [1e999] [-Infinity] ["\\ud800"] [{"group":"\\ud800"}] [{"\\u0000":0}]'.split():
        assert post(port, odd).status == 400


def test_a_body_of_another_kind_is_415(port, folder):
    kinds = words("text/plain application/x-www-form-urlencoded multipart/form-data application/jsonp json")
    kinds += ["", "text/plain; application/json", "x,application/json"]
    for headers in [{}] + [{"Content-Type": kind} for kind in kinds]:
        reply = post(port, LESION, headers=headers)
        assert reply.status == 415, headers
        assert_harmless(reply, folder)
    assert post(port, LESION, headers={"Content-Type": "application/json; charset=utf-8"}).status == 200


def chunked(port, body, size=1000):
    """A body that does not say how long it is."""
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    head = write_request(port, "/api/lesion", "POST", headers=headers)
    return parse(exchange(port, head + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"))


def test_a_body_has_so_many_bytes_and_no_more_whether_it_says_so_or_not(port, folder):
    full, more = LESION + b" " * (LARGEST_BODY - len(LESION)), LESION + b" " * (LARGEST_BODY - len(LESION) + 1)
    assert post(port, full).status == 200
    assert chunked(port, full).status == 200
    for reply in (post(port, more), chunked(port, more), chunked(port, more, 1), chunked(port, b"[" * 10**6)):
        assert reply.status == 413
        assert str(LARGEST_BODY).encode() in reply.body
        assert_harmless(reply, folder)


def test_a_length_that_is_none_is_refused(port):
    head = write_request(port, "/api/lesion", "POST", headers={"Content-Type": "application/json"})[:-2]
    for length in (*b"-1 1e3 +5 \xd9\xa1 99999999999999999999 0x10 5,6 17000".split(), b"", b"9" * 500, b"5, 6"):
        answer = exchange(port, head + b"Content-Length: " + length + b"\r\n\r\n" + LESION)
        assert re.match(rb"HTTP/1.1 4(00|13) ", answer), (length, answer[:100])


def test_a_recording_without_a_model_takes_no_lesions(port):
    reply = post(port, [{"group": "inter"}], "run=1")
    assert (reply.status, reply.error) == (400, "this recording holds no model, so nothing can be silenced")


# How much at once


@pytest.fixture
def gate(monkeypatch):
    """Holds models at the door until it is set; counts them."""
    gate, real = threading.Event(), Rerun.outputs
    gate.count = gate.most = gate.now = 0

    def outputs(self, lesions=()):
        gate.now += 1
        gate.count, gate.most = gate.count + 1, max(gate.most, gate.now)
        try:
            assert gate.wait(30)
            return real(self, lesions)
        finally:
            gate.now -= 1

    monkeypatch.setattr(Rerun, "outputs", outputs)
    yield gate
    gate.set()


@pytest.mark.slow
def test_few_wait_for_a_model_the_rest_are_told_so_and_readers_do_not_notice(port, folder, gate):
    with ThreadPoolExecutor(24) as pool:
        asked = [
            pool.submit(post, port, [{"group": "inter", "index": i % 8, "head": i // 8}], "sample=2")
            if i < 16
            else pool.submit(post, port, [{"group": "key", "index": i % 4, "head": i % 2}], "sample=2")
            for i in range(24)
        ]
        wait_for(lambda: sum(one.done() for one in asked) >= 8)  # one runs, fifteen wait
        for reply in (one.result() for one in asked if one.done()):
            assert (reply.status, reply.error.partition(";")[0]) == (503, "too many lesions are asked for at once")
            assert_harmless(reply, folder)
        wait_for(lambda: gate.now == 1)
        for path in ("/", "/api/about", "/api/curves?points=100", "/api/steps?stop=5"):
            assert ask(port, path).status == 200
        gate.set()
        assert sorted(one.result().status for one in asked) == [200] * 16 + [503] * 8
    assert gate.most == 1
    assert post(port, [{"group": "motor"}]).status == 200


def source_of(folder):
    return ViewerSource(Recording(folder / "layer"))


def test_who_waits_too_long_is_told_so_and_may_come_again(folder, gate, monkeypatch):
    monkeypatch.setattr(view_lesions, "_TIMEOUT", 0.005)
    lesions, source, wanted = LesionQueue(), source_of(folder), (Lesion("inter", 0),)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lesions.ask, source, 0, "nac", wanted)
        wait_for(lambda: gate.now == 1)
        for _ in range(40):  # more than may wait: each one leaves the queue
            with pytest.raises(TooManyRequests):
                lesions.ask(source, 0, "nac", wanted)
        gate.set()
        first.result()
    assert lesions.ask(source, 0, "nac", wanted) is first.result()


@pytest.mark.slow
def test_what_was_refused_leaves_the_queue(port):
    for _ in range(40):
        assert post(port, [{"group": "motor", "index": 0, "target": {"group": "inter", "index": 0}}]).status == 400
    assert post(port, LESION).status == 200


def test_an_answer_is_kept_while_it_is_among_the_last_few(folder, gate):
    gate.set()
    lesions, source = LesionQueue(), source_of(folder)
    first = (Lesion("inter", 0), Lesion("inter", 1))
    lesions.ask(source, 0, "nac", first)
    lesions.ask(source, 0, "nac", first[::-1] + first)  # the same silence
    assert gate.count == 1
    for i in range(2, 8):
        lesions.ask(source, 0, "nac", (Lesion("inter", i),))
    assert gate.count == 7
    lesions.ask(source, 0, "nac", first)
    assert gate.count == 8
    lesions.ask(source, 1, "nac", first)
    assert gate.count == 9


def test_a_sample_that_is_too_long_is_not_run(folder, gate, monkeypatch):
    lesions, source = LesionQueue(), source_of(folder)
    monkeypatch.setattr(view_lesions, "MOST_STEPS", STEPS - 1)
    with pytest.raises(BadRequest, match="a sample for lesions has 39 steps at most"):
        lesions.ask(source, 0, "nac", (Lesion("inter", 0),))
    assert gate.count == 0
    gate.set()
    monkeypatch.setattr(view_lesions, "MOST_STEPS", STEPS)
    lesions.ask(source, 0, "nac", (Lesion("inter", 0),))


def test_a_model_runs_only_for_a_request_that_is_right(port, gate):
    gate.set()
    for query in ("start=99", "stop=99", "points=0"):
        assert post(port, [{"group": "command", "index": 1, "head": 1}], query).status == 400
    assert gate.count == 0
