"""The viewer refuses what it should, over real sockets: paths, parameters, hosts, other pages and bodies."""

import asyncio
import itertools
import json
import re
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.inspect import Recording
from nacre.inspect.viewer.app import SCRIPTS, make_app
from nacre.inspect.viewer.query import MOST_POINTS
from nacre.inspect.viewer.request_checks import LARGEST_QUERY
from support.hypothesis import examples
from support.viewer import (
    HEADS,
    HOST,
    SAMPLES,
    SECRET,
    STEPS,
    as_bytes,
    ask,
    assert_harmless,
    exchange,
    parse,
    serving,
    words,
    write_request,
)

PLACE = ("run", "sample", "layer", "head")
PARAMETERS = {
    "circuit": PLACE,
    "spread": PLACE,
    "curves": (*PLACE, "start", "stop", "points"),
    "neuron": (*PLACE, "start", "stop", "points", "column"),
    "steps": (*PLACE, "start", "stop"),
    "frame": (*PLACE, "step"),
    "lesion": (*PLACE, "start", "stop", "points"),
}
NEEDED = {"neuron": {"column": 0}, "frame": {"run": 1, "step": 0}}
LESION = b'[{"group": "inter", "index": 0}]'
JSON = {"Content-Type": "application/json"}
NO_NUMBERS = [
    *words("%20 %201 1%20 +1 %2B1 1e3 0x10 0b1 1_0 1.0 1,0 .5 -1 -0 NaN nan inf -inf Infinity null None true"),
    *words("1;2 [1] %00 1%00 0%0A %D9%A1 %EF%BC%91 %C2%B2 %E2%91%A0 %FF %C0%B1 %25 1%2500 ..%2f..%2f '--"),
    *("", "1" + "0" * 100, "9" * 1500, "0000000000", "%3Cscript%3E", "%F0%9F%90%9A"),
]
TOO_LARGE = ["999999999", "123456789", "100000"]


@pytest.fixture(scope="module")
def port(viewed):
    return viewed[1]


@pytest.fixture(scope="module")
def folder(viewed):
    return viewed[0]


@pytest.fixture(scope="module")
def app(folder):
    return make_app([Recording(folder / "layer"), Recording(folder / "frames")])


def address(route, **parameters):
    """Parameters are put in as they are."""
    query = "&".join(f"{name}={value}" for name, value in ({**NEEDED.get(route, {}), **parameters}).items())
    return f"/api/{route}?{query}"


def send(port, route, **parameters):
    more = {"method": "POST", "body": LESION, "headers": JSON}
    return ask(port, address(route, **parameters), **(more if route == "lesion" else {}))


# Paths

UP = [
    *words("../secret.txt ../../secret.txt ..%2fsecret.txt ..%2Fsecret.txt %2e%2e/secret.txt secret.txt"),
    *words("%2e%2e%2fsecret.txt %252e%252e%252fsecret.txt ..%252fsecret.txt %25252e%25252e/secret.txt"),
    *words("..\\secret.txt ..%5csecret.txt ..%255csecret.txt ....//secret.txt ..;/secret.txt ./secret.txt"),
    *words("page/secret.txt %73ecret.txt style.css/../secret.txt secret.txt%00.css style.css%00 %00"),
    *words("..%00/secret.txt secret.txt%20 secret.txt%0d%0a %c0%ae%c0%ae/secret.txt %ff%fe/secret.txt"),
    *words("%c0%ae%c0%ae%c0%afsecret.txt %e0%80%ae%e0%80%ae/secret.txt %uff0e%uff0e/secret.txt % %2 %zz"),
    *words("trace.zarr/zarr.json model/model.json index.html __init__.py ../view.py STYLE.CSS"),
    *("a" * 9000, "../" * 2000, "%2e%2e%2f" * 900, "/etc/passwd", "%2fetc%2fpasswd"),
]


@pytest.mark.slow
def test_no_path_leads_out_of_the_page(port, folder):
    ups = [*UP, f"{folder}/secret.txt", quote(f"{folder}/secret.txt", safe="")]
    for root, up in itertools.product(("/", "/page/", "/api/", "//", "", "file:///"), ups):
        reply = parse(exchange(port, write_request(port, root + up)))
        assert reply.status in (400, 404), (root, up)
        assert SECRET not in reply.body
        assert b"root:" not in reply.body
        assert b"Traceback" not in reply.body
        if b"Invalid HTTP request" not in reply.body:  # what the parser itself refuses
            assert_harmless(reply, folder)


@pytest.mark.slow
def test_no_parameter_is_a_path(port, folder):
    ups = (*UP[:12], f"{folder}/secret.txt", "/etc/passwd")
    for parameter, up in itertools.product(words("sample layer run file path name"), ups):
        for route in ("about", "curves"):
            reply = ask(port, address(route, **{parameter: quote(up)}))
            assert reply.status == (200 if route == "about" else 400), (parameter, up)
            assert SECRET not in reply.body


def test_only_the_files_of_the_page_are_served(port, folder):
    served = {"/": "text/html; charset=utf-8", "/page/style.css": "text/css; charset=utf-8"}
    served |= {f"/page/{name}": "text/javascript; charset=utf-8" for name in SCRIPTS}
    for path, kind in served.items():
        reply = ask(port, path)
        assert (reply.status, reply.headers["content-type"]) == (200, kind)
        assert len(reply.body) > 500
        assert_harmless(reply, folder)
    for path in ("/page/", "/page", "/page/index.html", "/api", "/api/", "/favicon.ico", "/docs", "/openapi.json"):
        assert ask(port, path).status == 404


def test_an_unknown_route_is_404_in_json(port, folder):
    for path in ("/api/nothing", "/api/about2", "/api/curves.json", "/API/about", "/api//about"):
        reply = ask(port, path)
        assert (reply.status, reply.error) == (404, "Not Found")
        assert_harmless(reply, folder)


def test_nothing_can_be_written(port, folder):
    paths = ("/", "/page/main.js", "/api/about", "/api/frame", *(f"/api/{name}" for name in PARAMETERS))
    for method, path in itertools.product(words("PUT DELETE OPTIONS TRACE PROPFIND POST get"), paths):
        if (method, path) == ("POST", "/api/lesion"):
            continue
        reply = ask(port, path, method)
        assert (reply.status, reply.error) == (405, "Method Not Allowed"), (method, path)
        assert_harmless(reply, folder)
    assert ask(port, "/api/lesion").headers["allow"] == "POST"


def test_head_says_what_get_would(port, folder):
    reply = ask(port, "/api/about", "HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["content-length"]) == len(ask(port, "/api/about").body)
    assert_harmless(reply, folder)


# Parameters


def assert_named(name, text, status, body):
    assert status == 400, (name, text, body[:200])
    error = json.loads(body)
    assert list(error) == ["error"]
    assert re.match(rf"{name} must be ", error["error"]), error
    assert len(error["error"]) < 200


@pytest.mark.parametrize("route", PARAMETERS)
def test_a_parameter_that_is_no_number_in_range_is_400_and_named(port, folder, app, route):
    texts = itertools.cycle(NO_NUMBERS)
    lesion = route == "lesion"
    for name in PARAMETERS[route]:
        path, _, _ = address(route).partition("?")
        queries = [address(route, **{name: text}).partition("?")[2] for text in NO_NUMBERS + TOO_LARGE]
        kind = [(b"content-type", b"application/json")]
        answers = call(app, path, queries, "POST" if lesion else "GET", LESION if lesion else b"", kind)
        for text, (status, body) in zip(NO_NUMBERS + TOO_LARGE, answers, strict=True):
            assert_named(name, text, status, body)
        for text in itertools.islice(texts, 7):  # and over the wire
            reply = send(port, route, **{name: text})
            assert_named(name, text, reply.status, reply.body)
            assert_harmless(reply, folder)


@pytest.mark.slow
def test_each_parameter_has_its_largest_number_and_no_larger_one(port):
    neurons = sum(size for _, size in ask(port, "/api/about").data["runs"][0]["layers"][0]["groups"])
    largest = {"run": 1, "sample": SAMPLES - 1, "layer": 0, "head": HEADS - 1, "start": STEPS - 1, "stop": STEPS}
    largest |= {"points": MOST_POINTS, "column": neurons - 1}
    for route, names in PARAMETERS.items():
        for name in set(names) - {"step"}:
            if (route, name) in {("lesion", "run"), ("frame", "sample"), ("frame", "head")}:
                continue  # the recording of frames has its own
            assert send(port, route, **{name: largest[name]}).status == 200, (route, name)
            reply = send(port, route, **{name: largest[name] + 1})
            low = {"stop": 1, "points": 1}.get(name, 0)
            got = f"{name} must be from {low} to {largest[name]}, got {largest[name] + 1}"
            assert (reply.status, reply.error) == (400, got)
    for name, last in {"step": 6, "sample": 1, "head": 1}.items():
        assert send(port, "frame", **{name: last}).status == 200
        assert send(port, "frame", **{name: last + 1}).error == f"{name} must be from 0 to {last}, got {last + 1}"
    # The second drive is shorter.
    assert send(port, "frame", sample=1, step=3).status == 200
    assert send(port, "frame", sample=1, step=4).error == "step must be from 0 to 3, got 4"


def test_what_is_needed_is_missed_by_name(port):
    assert ask(port, "/api/neuron").error == "column is missing"
    assert ask(port, "/api/frame?run=1").error == "step is missing"
    assert ask(port, "/api/frame?run=0&step=0").error == "this recording has no frames"


def test_a_window_has_a_step_and_its_ends_in_order(port):
    for route in ("curves", "steps", "lesion", "neuron"):
        assert send(port, route, start=5, stop=6).status == 200
        for start, stop in ((5, 5), (5, 4), (STEPS - 1, 0)):
            reply = send(port, route, start=start, stop=stop)
            assert (reply.status, reply.error) == (400, f"stop must be from {start + 1} to {STEPS}, got {stop}")


def test_a_repeated_or_strange_parameter_does_no_harm(port, folder):
    queries = words("sample=0&sample=1 sample=0&sample=99 sample=99&sample=0 sample &&&& = =&=1 a=b=c % sample=%")
    queries += ["%00=1", "sample=1;head=1", "sample[]=1", "&".join(["sample=0"] * 200), "?", "?sample=1"]
    for query in queries:
        reply = ask(port, f"/api/spread?{query}")
        assert reply.status in (200, 400), query
        assert_harmless(reply, folder)
        if reply.status == 400:
            assert reply.error.startswith(("sample must be", "parameters are run, sample"))
    assert "comes twice" in ask(port, "/api/spread?sample=1&sample=1").error
    assert "'smaple' is none" in ask(port, "/api/spread?smaple=1").error


def test_a_long_query_is_refused_before_it_is_read(port, folder):
    room = LARGEST_QUERY - len("sample=0&x=")
    assert ask(port, "/api/spread?sample=0&x=" + "y" * room).status == 400
    reply = ask(port, "/api/spread?sample=0&x=" + "y" * (room + 1))
    assert reply.status == 414
    assert_harmless(reply, folder)


def test_what_was_wrong_is_told_without_markup(port):
    reply = ask(port, "/api/spread?sample=%3Cscript%3Ealert(1)%3C/script%3E")
    assert (reply.status, reply.headers["content-type"]) == (400, "application/json")


def call(app, path, queries, method="GET", body=b"", headers=()):
    """Status and body of each answer, without a socket."""
    answers = []

    async def one(query):
        sent = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message):
            sent.append(message)

        scope = {"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "root_path": ""}
        scope |= {"path": path, "raw_path": path.encode(), "query_string": as_bytes(query)}
        scope |= {"server": (HOST, 80), "client": (HOST, 5), "headers": [(b"host", HOST.encode()), *headers]}
        await app(scope, receive, keep)
        answers.append((sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])))

    async def every():
        for query in queries:
            await one(query)

    asyncio.run(every())
    return answers


@pytest.mark.slow
@examples(150)
@given(
    route=st.sampled_from([name for name in PARAMETERS if name != "lesion"]),
    numbers=st.dictionaries(
        st.sampled_from([*PLACE, "start", "stop", "points", "column", "step"]),
        st.one_of(st.integers(-2, 45).map(str), st.sampled_from(["0", "1", "2"]), st.text(max_size=12)),
    ),
)
def test_any_parameters_get_an_answer_or_a_reason(app, route, numbers):
    [(status, body)] = call(app, f"/api/{route}", [urlencode(numbers, errors="replace")])
    assert status in (200, 400)
    if status == 400:
        assert list(json.loads(body)) == ["error"]
    elif route != "frame":
        assert all(text.isascii() and text.isdigit() for name, text in numbers.items() if name in PLACE)
        json.loads(body, parse_constant=pytest.fail)


@examples(150)
@given(query=st.binary(max_size=60), route=st.sampled_from(list(PARAMETERS)[:-1]))
def test_any_bytes_as_a_query_get_an_answer_or_a_reason(app, query, route):
    [(status, body)] = call(app, f"/api/{route}", [query])
    assert status in (200, 400)
    assert b"Traceback" not in body


# Who asks


def test_a_host_that_is_no_address_is_refused(port, folder):
    hosts = words("evil.com localhost.evil.com 127.0.0.1.evil.com 127.0.0.1@evil.com :80 [::1 ::1] [] [::g] 127.1")
    hosts += words("127.0.0.256 0x7f.0.0.1 localhost. 2130706433 127.0.0.1\\evil.com viewer.lan.evil.com")
    hosts += words("evil.viewer.lan [127.0.0.1 http://127.0.0.1 //127.0.0.1 xn--lcalhost-0oa")
    hosts += ["", "127.0.0.1, evil.com", "localhost evil.com", "a" * 5000, b"127.0.0.1\xff", f"evil.com:{port}"]
    for host in hosts:
        for path in ("/", "/api/about", "/api/nothing"):
            reply = ask(port, path, host=[host])
            assert reply.status == 400, host
            assert reply.body.startswith(b"The Host header names another machine"), host
            assert_harmless(reply, folder)


def test_an_address_localhost_and_the_name_that_was_told_are_known(port):
    hosts = words("localhost LOCALHOST:1 [::1] [::1]:80 192.168.0.7:80 0.0.0.0 viewer.lan Viewer.LAN:80")
    for host in [*hosts, HOST, f"{HOST}:{port}"]:
        assert ask(port, "/api/about", host=[host]).status == 200, host


def test_a_host_that_is_missing_or_there_twice_is_refused(port):
    for hosts in ([], [HOST, HOST], [HOST, "evil.com"], ["evil.com", HOST]):
        assert ask(port, "/api/about", host=hosts).status == 400
    old = exchange(port, b"GET /api/about HTTP/1.0\r\n\r\n")  # may come without
    assert old.startswith(b"HTTP/1.1 400")


def test_a_foreign_host_is_refused_before_a_lesion_is_read(port):
    reply = ask(port, "/api/lesion", "POST", host=["evil.com"], headers=JSON, body=LESION)
    assert reply.status == 400
    assert b"Host" in reply.body


@pytest.mark.parametrize("path", ["/", "/api/about", "/api/lesion"])
def test_other_pages_may_not_ask(port, folder, path):
    more = {"method": "POST", "body": LESION} if path == "/api/lesion" else {}
    own = f"{HOST}:{port}"
    foreign = ["http://evil.com", "null", "", f"https://{own}", f"http://{HOST}", f"http://{HOST}:{port + 1}"]
    foreign += [f"http://localhost:{port}", f"http://{own}.evil.com", f"http://{own}/", own]
    for origin in foreign:
        reply = ask(port, path, headers={**JSON, "Origin": origin}, **more)
        assert reply.status == 403, origin
        assert_harmless(reply, folder)
    for site in ("cross-site", "same-site", "", "Same-Origin ", "evil", "none, cross-site"):
        reply = ask(port, path, headers={**JSON, "Sec-Fetch-Site": site}, **more)
        assert reply.status == 403, site
        assert_harmless(reply, folder)
    page = {"Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"}
    assert ask(port, path, headers={**JSON, **page}, **more).status == 200
    assert ask(port, path, headers={**JSON, "Sec-Fetch-Site": "none"}, **more).status == 200


def test_one_foreign_origin_among_two_is_enough_to_refuse(port):
    own = f"http://{HOST}:{port}".encode()
    for first, second in ((own, b"http://evil.com"), (b"http://evil.com", own)):
        lines = b"GET /api/about HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nOrigin: %s\r\nConnection: close\r\n\r\n"
        assert parse(exchange(port, lines % (own[7:], first, second))).status == 403


def test_a_host_that_is_malformed_is_refused(port):
    for host in words("evil.com@127.0.0.1 127.0.0.1/evil 127.0.0.1#evil 127.0.0.1?evil 127.0.0.1:port"):
        assert ask(port, "/api/about", host=[host]).status == 400, host


def test_a_name_in_capitals_that_was_told_is_known(folder):
    with serving(Recording(folder / "layer"), hosts=("MyBox",)) as port:
        assert ask(port, "/api/about", host=[f"MyBox:{port}"]).status == 200
