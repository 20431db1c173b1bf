"""Who may connect to the Udacity server."""

from http import HTTPStatus

from hypothesis import given
from hypothesis import strategies as st

from nacre.drive.udacity.server import check_request, same_origin

UPGRADE = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Host", "127.0.0.1:4567")]


def test_the_addresses_of_simulators_are_let_in_and_others_refused():
    for path in (
        "/socket.io/?EIO=4&transport=websocket",
        "/socket.io/?EIO=3&transport=websocket",
        "/socket.io/?transport=websocket&EIO=3&t=1700000000.5",
        "/socket.io?EIO=4&transport=websocket",
        "/socket.io/",
    ):
        assert check_request(path, UPGRADE) is None, path
    for path, status in {
        "/": HTTPStatus.NOT_FOUND,
        "/engine.io/?EIO=3&transport=websocket": HTTPStatus.NOT_FOUND,
        "/socket.io/?EIO=3&transport=polling": HTTPStatus.BAD_REQUEST,
        "//[/socket.io/": HTTPStatus.BAD_REQUEST,
    }.items():
        assert check_request(path, UPGRADE)[0] == status, path


def test_a_request_that_is_no_websocket_is_told_what_this_is():
    status, text = check_request("/socket.io/", [("Host", "127.0.0.1:4567")])
    assert status == HTTPStatus.UPGRADE_REQUIRED
    assert "Udacity simulator" in text


def test_an_origin_must_be_this_server_at_a_bare_address():
    for origin, host, allowed in (
        ("http://127.0.0.1:4567", "127.0.0.1:4567", True),
        ("http://localhost:4567", "localhost:4567", True),
        ("http://[::1]:4567", "[::1]:4567", True),
        ("http://192.168.0.7:4567", "192.168.0.7:4567", True),
        ("http://192.168.0.7", "192.168.0.7:80", True),
        ("http://example.org", "127.0.0.1:4567", False),
        ("http://localhost:8888", "localhost:4567", False),  # another program's page on this machine
        ("http://localhost:4567", "127.0.0.1:4567", False),
        ("https://127.0.0.1:4567", "127.0.0.1:4567", False),
        ("http://evil.example:4567", "evil.example:4567", False),  # a name pointed at this machine
        ("http://127.0.0.1.evil.example:4567", "127.0.0.1.evil.example:4567", False),
        ("http://127.0.0.1:4567@evil.example", "127.0.0.1:4567", False),
        ("null", "127.0.0.1:4567", False),
        ("", "127.0.0.1:4567", False),
        ("file://", "127.0.0.1:4567", False),
        ("http://127.0.0.1:x", "127.0.0.1:x", False),
    ):
        assert same_origin([origin], [host]) is allowed, origin


def test_several_origins_or_hosts_are_refused():
    own = "http://127.0.0.1:4567"
    assert not same_origin([own, own], ["127.0.0.1:4567"])
    assert not same_origin([own], ["127.0.0.1:4567", "127.0.0.1:4567"])
    assert not same_origin([own], [])


def test_header_names_are_known_in_any_case():
    request = [("UPGRADE", "WebSocket"), ("host", "127.0.0.1:4567"), ("oRIGIN", "http://example.org")]
    status, text = check_request("/socket.io/", request)
    assert status == HTTPStatus.FORBIDDEN
    assert "'http://example.org'" in text


@given(st.text(), st.lists(st.tuples(st.sampled_from(["Origin", "Host", "Upgrade"]), st.text()), max_size=5))
def test_any_request_is_let_in_or_refused_but_raises_nothing(path, headers):
    refusal = check_request(path, headers)
    assert refusal is None or refusal[0] >= 400
