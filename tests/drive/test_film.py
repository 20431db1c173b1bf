"""Films of drives: files that play, right side up, that show what happened, and are whole or not there."""

import warnings

import imageio.v2 as imageio
import numpy as np
import pytest
from imageio.core.format import Format
from PIL import Image

from nacre.data.sets.episodes import ACTIONS, Drive
from nacre.drive.carracing import film as film_module
from nacre.drive.carracing.episode import run_episode
from nacre.drive.carracing.expert import Expert
from nacre.drive.carracing.film import film
from nacre.drive.carracing.film_frame import SIZE, Moment, draw
from nacre.drive.carracing.policy import NetworkDriver
from nacre.drive.carracing.saliency import decide, heat_now, overlay
from support.drive import network

STEPS, IMAGES = 14, 7
NOISY = Drive(seed=3, noise=0.5, driver="sdpa", limit=STEPS)
ENLARGED = (slice(28, 220), slice(628, 820))  # rows and columns of the enlarged frame


def network_driver():
    return NetworkDriver(network("sdpa", seed=9), 4, "sdpa")


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    """The film of a short and noisy drive, the moments that were drawn for it, and the drive."""
    moments = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(film_module, "draw", lambda moment: moments.append(moment) or draw(moment))
        mp4, gif, _ = film(network_driver(), NOISY, tmp_path_factory.mktemp("film") / "new" / "a.b")
    return mp4, gif, moments, run_episode(network_driver(), NOISY)


def read(path):
    """All images of a film, and what the file says about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # imageio's reader leaves pipes open at the end of a film
        with imageio.get_reader(path) as reader:
            about = reader.get_meta_data()
            images = [np.asarray(image)[..., :3] for image in reader]
        del reader
    return images, about


def test_drive_film_is_a_video_for_browsers_with_every_second_step(filmed):
    mp4 = filmed[0]
    images, about = read(mp4)
    assert [image.shape for image in images] == [(SIZE[1], SIZE[0], 3)] * IMAGES
    assert about["codec"] == "h264"
    assert about["pix_fmt"].startswith("yuv420p")
    assert about["fps"] == 25
    data = mp4.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat"), "browsers play it while it loads"


def test_drive_film_has_a_gif_of_every_third_image(filmed):
    mp4, gif = filmed[:2]
    assert (mp4.name, gif.name) == ("a.b.mp4", "a.b.gif")
    with Image.open(gif) as image:
        assert image.size == SIZE
        assert image.info["duration"] == 120  # milliseconds: three images of 25 a second
        assert image.info["loop"] == 0
    images, _ = read(gif)
    assert len(images) == 3
    for wanted, got in zip(read(mp4)[0][::3], images, strict=True):
        assert np.abs(wanted.astype(int) - got).mean() < 6


def test_drive_film_shows_the_moments_of_the_drive(filmed):
    _, _, moments, episode = filmed
    assert len(moments) == IMAGES
    assert (episode.action != episode.label).any(), "noise must have been at work"
    for number, moment in enumerate(moments):
        step = 2 * number
        assert moment.seconds == step / 50
        assert moment.action == episode.action[step]
        window = episode.frames[max(0, step - 3) : step + 1]
        assert moment.probabilities == pytest.approx(decide(network_driver().network, window), abs=1e-6)
        assert (moment.frame == episode.frames[step]).all()
        assert moment.speed == episode.pose[step, 3]
        wanted = heat_now(network_driver().network, window, int(moment.probabilities.argmax()))
        np.testing.assert_allclose(moment.heat, wanted, atol=1e-5)
    # Nothing may speak for an action; then there is no heat at all.
    assert {1.0} <= {float(moment.heat.max()) for moment in moments} <= {0.0, 1.0}


def test_drive_film_is_right_side_up_and_not_mirrored(filmed):
    mp4, _, moments, _ = filmed
    for image, moment in zip(read(mp4)[0], moments, strict=True):
        view = image[:, :600].astype(int)
        assert view[355:].mean() < 40, "the indicator bar is black, and at the bottom"
        assert view[250:345, 250:350].mean() > 60, "the road is above it"
        eye = image[ENLARGED].astype(int)
        wanted = overlay(moment.frame, moment.heat).repeat(2, 0).repeat(2, 1)
        for got, true in ((view, moment.view), (eye, wanted)):
            near = np.abs(got - true).mean()
            assert near < 6
            for turned in (true[::-1], true[:, ::-1], true[::-1, ::-1]):
                assert near < np.abs(got - turned).mean()


def moment_of(**options):
    grey = np.full((400, 600, 3), 128, np.uint8)
    return Moment("nac", 1.0, options.pop("action", 3), 20.0, -1.25, grey, grey[:96, :96], **options)


def coloured(image, colour):
    """Rows of each action's bar in which there are pixels of a colour, and how many pixels that are."""
    rows = [image[232 + 21 * number : 248 + 21 * number, 600:] for number in range(5)]
    return [int((part == colour).all(-1).sum()) for part in rows]


def test_drive_film_image_marks_the_action_taken_and_bars_grow_with_probability():
    shares = np.array([0.1, 0.2, 0.3, 0.4, 0.0], np.float32)
    for action in range(5):
        image = draw(moment_of(action=action, probabilities=shares))
        marked, others = coloured(image, (0xD5, 0x5E, 0x00)), coloured(image, (0x9F, 0xC5, 0xDD))
        assert [number for number, pixels in enumerate(marked) if pixels] == [action]
        assert others[action] == 0
        rest = [number for number in np.argsort(shares) if number != action]
        assert (np.diff([others[number] for number in rest]) > 0).all(), action


def test_drive_film_image_of_a_driver_without_a_network_has_no_bars_and_no_heat():
    moment = moment_of()
    image = draw(moment)
    assert (image[ENLARGED] == 128).all()
    assert sum(coloured(image, (0xD5, 0x5E, 0x00)) + coloured(image, (0x9F, 0xC5, 0xDD))) == 0
    assert (image[230:250, 628:820] < 100).any(), "but it says what is done"
    assert (draw(moment_of(action=ACTIONS.index("left"))) != image).any()


def test_drive_film_image_leaves_a_margin_whatever_the_name_and_numbers():
    moment = moment_of(probabilities=np.array([1, 0, 0, 0, 0], np.float32), heat=np.zeros((96, 96), np.float32))
    wide = Moment(**{**vars(moment), "driver": "nac-phi-linear " * 9, "seconds": 1234.5, "error": -123.4})
    beside = draw(wide)[:, 600:]
    assert (beside[:, -4:] == 255).all()
    assert (beside[:, :8] == 255).all()
    assert (beside[:5] == 255).all()
    assert (beside[-5:] == 255).all()


class Watched(Expert):
    """An expert that remembers what it saw, and may be stopped."""

    def __init__(self, stop_at=None, error=KeyboardInterrupt):
        self.seen, self.stop_at, self.error = [], stop_at, error

    def act(self, world):
        if len(self.seen) == self.stop_at:
            raise self.error
        self.seen.append((world.frame, world.pose))
        return super().act(world)


def test_drive_filming_does_not_change_the_drive_and_replaces_old_files(tmp_path):
    for name in ("a.mp4", "a.gif"):
        (tmp_path / name).write_text("old")
    filmed, plain = Watched(), Watched()
    film(filmed, Drive(seed=4, randomize=True, limit=9), tmp_path / "a")
    run_episode(plain, Drive(seed=4, randomize=True, limit=9))
    assert len(filmed.seen) == len(plain.seen) == 9
    assert all((a[0] == b[0]).all() and a[1] == b[1] for a, b in zip(filmed.seen, plain.seen, strict=True))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.gif", "a.mp4"]
    assert [len(read(tmp_path / name)[0]) for name in ("a.mp4", "a.gif")] == [5, 2]


@pytest.mark.parametrize(("step", "error"), [(0, ValueError), (3, KeyboardInterrupt)])
def test_drive_film_that_is_stopped_leaves_the_old_files_and_nothing_else(tmp_path, step, error):
    for name in ("a.mp4", "a.gif"):
        (tmp_path / name).write_text("old")
    with pytest.raises(error):
        film(Watched(step, error), Drive(seed=3, limit=20), tmp_path / "a")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a.mp4": "old", "a.gif": "old"}


def test_drive_film_of_which_ffmpeg_lost_images_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").write_text("old")
    append, drawn = Format.Writer.append_data, []

    def lose_every_third(writer, image):
        drawn.append(image)
        if len(drawn) % 3:
            append(writer, image)

    monkeypatch.setattr(Format.Writer, "append_data", lose_every_third)
    with pytest.raises(OSError, match="ffmpeg wrote 4 of 6 pictures"):
        film(Expert(), Drive(seed=3, limit=12), tmp_path / "a")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a.mp4": "old"}
