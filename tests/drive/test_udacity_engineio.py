"""Packets of the Udacity simulator: what is read, what is refused, what is written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.drive.udacity.engineio import (
    CONNECT,
    Packet,
    PacketKind,
    Refused,
    event_packet,
    open_packet,
    parse_packet,
    pong_packet,
    shorten,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def reference(text):
    """The packet of a text, read character by character; None for what a server of the simulator does not take."""
    plain = {"1": PacketKind.CLOSE, "3": PacketKind.PONG, "5": PacketKind.UPGRADE, "6": PacketKind.NOOP}
    if text[:1] in plain and text:
        return Packet(plain[text[0]])
    if text[:1] == "2":
        return Packet(PacketKind.PING, text[1:]) if len(text) <= 65 else None
    if text[:1] != "4" or text[1:2] not in ("1", "2"):
        return None
    rest = text[2:]
    if rest[:1] == "/":
        namespace, _, rest = rest.partition(",")
        if namespace != "/":
            return None
    if text[1] == "1":
        return Packet(PacketKind.DISCONNECT)
    digits = 0
    while digits < 10 and rest[digits : digits + 1] in set("0123456789"):
        digits += 1
    try:
        items = json.loads(rest[digits:], parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return None
    if not isinstance(items, list) or len(items) not in (1, 2) or not isinstance(items[0], str):
        return None
    return Packet(PacketKind.EVENT, event=items[0], data=items[1] if len(items) == 2 else None)


def parsed(text):
    try:
        return parse_packet(text)
    except Refused:
        return None


@given(st.text() | st.text(alphabet='0123456789/,[]{}":x -.aN', max_size=12).map(lambda text: "42" + text))
def test_any_text_is_read_as_the_reference_reads_it_or_refused(text):
    assert parsed(text) == reference(text)


@given(
    prefix=st.sampled_from(["42", "42/,", "427", "42/,12", "42/x,", "41", "40", "4", "2", "", "45", "42,"]),
    items=st.lists(JSON, max_size=3),
)
def test_events_with_namespaces_and_numbers_are_read_as_the_reference_reads_them(prefix, items):
    text = prefix + json.dumps(items)
    assert parsed(text) == reference(text)


@given(name=st.text(), data=JSON)
def test_an_event_comes_back_as_it_was_written(name, data):
    packet = parse_packet("42" + json.dumps([name, data]))
    assert (packet.kind, packet.event, packet.data) == (PacketKind.EVENT, name, data)


def test_packets_without_data_are_known_by_their_digits():
    kinds = {"1": "CLOSE", "2": "PING", "3": "PONG", "41": "DISCONNECT", "5": "UPGRADE", "6": "NOOP"}
    for text, kind in kinds.items():
        assert parse_packet(text) == Packet(PacketKind[kind]), text


def test_the_telemetry_of_a_car_that_a_person_drives_has_no_data():
    assert parse_packet('42["telemetry",null]').data is None
    assert parse_packet('42["telemetry"]').data is None
    assert parse_packet('42["telemetry",{}]').data == {}


def test_a_pong_carries_what_the_ping_carried():
    assert pong_packet(parse_packet("2")) == "3"
    assert pong_packet(parse_packet("2probe")) == "3probe"
    assert pong_packet(parse_packet("2" + "x" * 64)) == "3" + "x" * 64


def test_a_ping_with_more_than_64_characters_is_refused():
    with pytest.raises(Refused, match="65 characters"):
        parse_packet("2" + "x" * 65)


def test_constants_that_are_no_json_are_refused():
    for constant in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(Refused, match=f"{constant} is not JSON") as caught:
            parse_packet(f'42["telemetry",{constant}]')
        assert caught.value.reason == "json"


def test_nesting_that_would_exhaust_the_stack_is_refused():
    with pytest.raises(Refused, match="nested too deeply"):
        parse_packet("42" + "[" * 200_000)


def test_a_message_with_a_stray_comma_or_without_a_body_is_refused():
    for text in ('42,["telemetry"]', '42 ,["telemetry"]', '42/,,["telemetry"]', "42", "4", ""):
        assert parsed(text) is None, text


def test_a_foreign_namespace_is_refused_by_name():
    with pytest.raises(Refused, match="'/admin'") as caught:
        parse_packet('42/admin,["telemetry"]')
    assert caught.value.reason == "namespace"


@given(st.text(max_size=300))
def test_text_quoted_for_a_log_is_one_short_printable_line(text):
    line = shorten(text)
    assert line.isascii()
    assert line.isprintable()
    assert len(line) <= 60 * len(r"\U0001f600") + len("''... (300 characters)")


def test_the_packets_of_the_server_have_the_form_that_old_servers_sent():
    handshake = json.loads(open_packet("abc").removeprefix("0"))
    assert handshake == {"sid": "abc", "upgrades": [], "pingTimeout": 60000, "pingInterval": 25000}
    assert CONNECT == "40"
    assert event_packet("steer", {"steering_angle": "0", "throttle": "0"}) == (
        '42["steer",{"steering_angle":"0","throttle":"0"}]'
    )
