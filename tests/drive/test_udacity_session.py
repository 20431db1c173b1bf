"""What the Udacity simulator is told, without a socket: telemetry, answers, statistics and warnings."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nacre.drive.udacity.engineio import Refused
from nacre.drive.udacity.link import KEPT, LinkStats, RateLimitedLog
from nacre.drive.udacity.session import (
    MANUAL,
    MAX_MESSAGE,
    SAFE,
    Session,
    decimal,
    decode_frame,
    read_number,
    read_telemetry,
)
from nacre.drive.udacity.speed_control import SpeedController
from support.udacity_client import (
    base64_of,
    event,
    jpeg,
    lean,
    logged,
    random_image,
    steering,
    telemetry,
    telemetry_data,
)
from support.udacity_malformed import KINDS

FILE = jpeg(random_image(np.random.default_rng(0)))


def session(driver=lean):
    return Session(driver, SpeedController(15.0), clock=lambda: 0.0)


def test_the_safe_command_is_straight_without_throttle_or_decimal_mark():
    assert json.loads(SAFE.removeprefix("42")) == ["steer", {"steering_angle": "0", "throttle": "0"}]


def test_a_frame_reaches_the_driver_as_it_was_encoded_upright_and_in_rgb():
    shown = []
    array = np.zeros((160, 320, 3), np.uint8)
    array[:80, :160] = (250, 0, 0)
    array[80:, 160:] = (0, 0, 250)
    session(lambda frame: shown.append(frame) or 0.0).answer(telemetry(jpeg(array, quality=95)))
    (frame,) = shown
    assert frame.shape == (160, 320, 3)
    assert frame.dtype == np.uint8
    assert np.abs(frame.astype(int) - array)[8:72, 8:152].max() < 8
    assert np.abs(frame.astype(int) - array)[88:152, 168:312].max() < 8


def test_a_frame_is_answered_with_the_steering_of_the_driver_and_a_throttle():
    reply = session(lambda frame: 0.1234567).answer(telemetry(FILE, speed="13.0000"))
    assert reply.text == '42["steer",{"steering_angle":"0.123457","throttle":"0.200000"}]'
    assert reply.driven
    assert reply.telemetry
    assert reply.refused is None


def test_steering_beyond_the_ends_is_clipped():
    for wanted, sent in ((3.0, "1.000000"), (-7, "-1.000000"), (np.float32(-0.0), "0.000000")):
        assert steering(session(lambda frame, wanted=wanted: wanted).answer(telemetry(FILE)).text) == sent


def test_a_simulator_that_writes_commas_is_answered_with_commas():
    data = telemetry_data(FILE) | {"steering_angle": "-1,2500", "throttle": "0,3000", "speed": "13,0000"}
    reply = session(lambda frame: -0.25).answer(event("telemetry", data))
    assert reply.text == '42["steer",{"steering_angle":"-0,250000","throttle":"0,200000"}]'


def test_the_time_between_frames_goes_into_the_throttle():
    times = iter([10.0, 10.05, 10.15])
    one = Session(lambda frame: 0.0, SpeedController(15.0, integral=1.0), clock=lambda: next(times))
    throttles = [json.loads(one.answer(telemetry(FILE, "14.0000")).text[2:])[1]["throttle"] for _ in range(2)]
    assert throttles == ["0.150000", "0.250000"]


def test_empty_telemetry_leaves_the_car_to_the_person_at_the_keyboard():
    for text in ('42["telemetry",null]', '42["telemetry"]', '42["telemetry",{}]'):
        reply = session().answer(text)
        assert (reply.text, reply.telemetry, reply.driven) == (MANUAL, True, False), text
    assert MANUAL == '42["manual",{}]'


def test_packets_that_need_no_answer_get_none():
    for text, done in {"3": False, "5": False, "6": False, "1": True, "41": True}.items():
        reply = session().answer(text)
        assert (reply.text, reply.done, reply.refused) == (None, done, None), text


def test_a_malformed_message_gets_the_safe_command_and_the_reason_is_known():
    for kind, (reason, make) in KINDS.items():
        reply = session().answer(make(FILE, np.random.default_rng(1)))
        assert reply.text == SAFE, kind
        assert reply.refused is not None, kind
        assert reply.refused.reason == reason, kind
        assert (reply.driven, reply.done) == (False, False), kind


@given(st.text() | st.binary() | st.text().map(lambda text: '42["telemetry",' + text))
@example("42" + "[" * 100_000)
def test_any_message_gets_an_answer_and_none_an_exception(message):
    reply = session().answer(message)
    assert reply.text is None or reply.text[:1] in "34"


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "speed": st.one_of(st.text(max_size=6), st.floats(), st.integers(), st.none()),
            "image": st.one_of(st.text(max_size=9), st.binary(max_size=90).map(base64_of), st.integers()),
            "throttle": st.text(max_size=4),
        },
    ).filter(bool)
)
def test_telemetry_with_fields_of_any_kind_is_refused_and_never_reaches_the_driver(fields):
    asked = []
    reply = session(lambda frame: asked.append(frame) or 1.0).answer(event("telemetry", fields))
    assert reply.text == SAFE
    assert not asked


def test_damaged_jpegs_are_decoded_or_refused_but_raise_nothing_else():
    rng = np.random.default_rng(2)
    reasons = []
    for _ in range(100):
        file = bytearray(FILE)
        for at in rng.integers(0, len(file), 20):
            file[at] = rng.integers(256)
        try:
            assert decode_frame(base64_of(bytes(file))).shape == (160, 320, 3)
        except Refused as error:
            reasons.append(error.reason)
    assert 20 < len(reasons) < 100
    assert set(reasons) == {"image"}


def test_a_driver_that_raises_or_returns_no_finite_number_costs_one_safe_command():
    raised = [ValueError("x"), MemoryError(), KeyError("a\nb")]
    for bad in [*raised, float("nan"), float("inf"), None, "left", np.zeros(2)]:
        outcomes = [bad, 0.5]

        def driver(frame, outcomes=outcomes):
            outcome = outcomes.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        one = session(driver)
        reply = one.answer(telemetry(FILE))
        assert (reply.text, reply.refused.reason) == (SAFE, "driver"), repr(bad)
        assert "\n" not in str(reply.refused)
        assert steering(one.answer(telemetry(FILE)).text) == "0.500000", repr(bad)


def test_a_message_may_be_as_long_as_the_limit_and_no_longer():
    padding = MAX_MESSAGE - len(event("telemetry", telemetry_data(FILE) | {"more": ""}))
    longest = event("telemetry", telemetry_data(FILE) | {"more": "x" * padding})
    assert len(longest) == MAX_MESSAGE
    assert session().answer(longest).driven
    assert session().answer(longest + " ").refused.reason == "size"


def test_each_session_has_a_name_of_its_own():
    names = {json.loads(session().greeting()[0][1:])["sid"] for _ in range(50)}
    assert len(names) == 50


@given(st.floats(-999, 999), st.sampled_from([".", ","]))
def test_numbers_are_written_as_they_are_read(value, mark):
    assert read_number("speed", decimal(value, mark)) == pytest.approx(value, abs=1e-6)


def test_texts_that_the_simulator_does_not_write_are_no_numbers():
    for text in ("1,234.5", "1.234,5", "1e3", " 5", "5.", ".5", "0x10", "٣", "1_0", "", "--1"):
        with pytest.raises(Refused, match="speed must be a number"):
            read_number("speed", text)


def test_telemetry_without_the_fields_that_are_not_used_is_taken():
    told = read_telemetry({"speed": 7, "image": base64_of(FILE)})
    assert (told.speed, told.mark) == (7.0, ".")


def test_the_summary_of_a_connection_counts_frames_latency_and_reasons():
    stats = LinkStats()
    assert stats.summary() == "no frame driven; no message refused"
    for milliseconds in range(1, 1002):
        stats.driven(milliseconds / 1000)
    for reason in ["json", "image", "image"]:
        stats.refused(reason)
    assert stats.summary() == (
        "1,001 frames driven, median 501.0 ms, 95 % 951.0 ms; 3 messages refused: image 2, json 1"
    )


def test_only_the_newest_latencies_are_kept():
    stats = LinkStats()
    for _ in range(KEPT):
        stats.driven(9.0)
    for _ in range(KEPT):
        stats.driven(0.001)
    assert stats.summary().startswith("20,000 frames driven, median 1.0 ms, 95 % 1.0 ms (the last 10,000)")


def test_warnings_of_one_kind_are_rate_limited_and_counted():
    now = [100.0]
    warnings = RateLimitedLog(every=5.0, clock=lambda: now[0])
    with logged() as lines:
        for _ in range(1001):
            warnings.warn("json", "bad JSON")
        warnings.warn("image", "bad image")
        now[0] = 105.0
        warnings.warn("json", "bad JSON")
        now[0] = 111.0
        warnings.warn("json", "bad JSON")
    assert lines == [
        "WARNING bad JSON",
        "WARNING bad image",
        "WARNING bad JSON (and 1,000 more like it before)",
        "WARNING bad JSON",
    ]
