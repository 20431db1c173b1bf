"""Films of drives: files that play, right side up, that show what happened, and are whole or not there."""

import warnings

import imageio.v2 as imageio
import numpy as np
import pytest
import torch
from imageio.core.format import Format
from PIL import Image

from nacre.data.dataset import Kind
from nacre.data.sets.episodes import ACTIONS, Drive
from nacre.drive.carracing import film as film_module
from nacre.drive.carracing.episode import run_episode
from nacre.drive.carracing.expert import Expert
from nacre.drive.carracing.film import film
from nacre.drive.carracing.film_frame import SIZE, Moment, draw
from nacre.drive.carracing.policy import NetworkDriver
from nacre.drive.carracing.saliency import decide, heat_now, overlay
from nacre.tasks.network import TaskNetwork

NOISY = Drive(seed=3, noise=0.5, driver="sdpa", limit=20)
EYE = (slice(28, 220), slice(628, 820))  # rows and columns of the enlarged frame
IMAGE = {"size": [96, 96], "conv": [[4, 3, 2], [4, 5, 4], [6, 5, 2]]}


def network_driver(frames=4):
    torch.manual_seed(9)
    net = TaskNetwork("sdpa", Kind.CLASSIFICATION, 3, 5, d_model=8, num_heads=2, dense=[8], image=IMAGE)
    net.shift, net.scale = torch.full((3,), 127.5), torch.full((3,), 127.5)
    return NetworkDriver(net, frames, "sdpa")


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    """The film of a short and noisy drive, the moments that were drawn for it, and the drive."""
    moments = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(film_module, "draw", lambda moment: moments.append(moment) or draw(moment))
        mp4, gif, _ = film(network_driver(), NOISY, tmp_path_factory.mktemp("film") / "new" / "a.b")
    return mp4, gif, moments, run_episode(network_driver(), NOISY)


def read(path):
    """All pictures of a film, and what the file says about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # imageio's reader leaves pipes open at the end of a film
        with imageio.get_reader(path) as reader:
            about = reader.get_meta_data()
            pictures = [np.asarray(picture)[..., :3] for picture in reader]
        del reader
    return pictures, about


def test_drive_film_is_a_video_for_browsers_with_every_second_step(filmed):
    mp4 = filmed[0]
    pictures, about = read(mp4)
    assert [picture.shape for picture in pictures] == [(SIZE[1], SIZE[0], 3)] * 10
    assert about["codec"] == "h264"
    assert about["pix_fmt"].startswith("yuv420p")
    assert about["fps"] == 25
    data = mp4.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat"), "browsers play it while it loads"


def test_drive_film_has_a_gif_of_every_third_picture(filmed):
    mp4, gif = filmed[:2]
    assert (mp4.name, gif.name) == ("a.b.mp4", "a.b.gif")
    with Image.open(gif) as image:
        assert image.size == SIZE
        assert image.info["duration"] == 120  # milliseconds: three pictures of 25 a second
        assert image.info["loop"] == 0
    pictures, _ = read(gif)
    assert len(pictures) == 4
    for wanted, got in zip(read(mp4)[0][::3], pictures, strict=True):
        assert np.abs(wanted.astype(int) - got).mean() < 6


def test_drive_film_shows_the_moments_of_the_drive(filmed):
    _, _, moments, episode = filmed
    assert len(moments) == 10
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
    for picture, moment in zip(read(mp4)[0], moments, strict=True):
        view = picture[:, :600].astype(int)
        assert view[355:].mean() < 40, "the indicator bar is black, and at the bottom"
        assert view[250:345, 250:350].mean() > 60, "the road is above it"
        eye = picture[EYE].astype(int)
        wanted = overlay(moment.frame, moment.heat).repeat(2, 0).repeat(2, 1)
        for got, true in ((view, moment.view), (eye, wanted)):
            near = np.abs(got - true).mean()
            assert near < 6
            for turned in (true[::-1], true[:, ::-1], true[::-1, ::-1]):
                assert near < np.abs(got - turned).mean()


def moment_of(**options):
    grey = np.full((400, 600, 3), 128, np.uint8)
    return Moment("nac", 1.0, options.pop("action", 3), 20.0, -1.25, grey, grey[:96, :96], **options)


def coloured(picture, colour):
    """Rows of each action's bar in which there are pixels of a colour, and how many pixels that are."""
    rows = [picture[232 + 21 * number : 248 + 21 * number, 600:] for number in range(5)]
    return [int((part == colour).all(-1).sum()) for part in rows]


@pytest.mark.parametrize("action", range(5))
def test_drive_picture_marks_the_action_that_is_done_and_bars_grow_with_probability(action):
    shares = np.array([0.1, 0.2, 0.3, 0.4, 0.0], np.float32)
    picture = draw(moment_of(action=action, probabilities=shares))
    marked, others = coloured(picture, (0xD5, 0x5E, 0x00)), coloured(picture, (0x9F, 0xC5, 0xDD))
    assert [number for number, pixels in enumerate(marked) if pixels] == [action]
    assert others[action] == 0
    rest = [number for number in np.argsort(shares) if number != action]
    assert (np.diff([others[number] for number in rest]) > 0).all()


def test_drive_picture_of_a_driver_without_a_network_has_no_bars_and_no_heat():
    moment = moment_of()
    picture = draw(moment)
    assert (picture[EYE] == 128).all()
    assert sum(coloured(picture, (0xD5, 0x5E, 0x00)) + coloured(picture, (0x9F, 0xC5, 0xDD))) == 0
    assert (picture[230:250, 628:820] < 100).any(), "but it says what is done"
    assert (draw(moment_of(action=ACTIONS.index("left"))) != picture).any()


def test_drive_picture_leaves_a_margin_whatever_the_name_and_figures():
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


def test_drive_filming_does_not_change_the_drive(tmp_path):
    filmed, plain = Watched(), Watched()
    film(filmed, Drive(seed=4, randomize=True, limit=31), tmp_path / "a")
    run_episode(plain, Drive(seed=4, randomize=True, limit=31))
    assert len(filmed.seen) == len(plain.seen) == 31
    assert all((a[0] == b[0]).all() and a[1] == b[1] for a, b in zip(filmed.seen, plain.seen, strict=True))
    assert len(read(tmp_path / "a.mp4")[0]) == 16


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("step", [0, 7])
def test_drive_film_that_is_stopped_leaves_the_old_files_and_nothing_else(tmp_path, step, error):
    for name in ("a.mp4", "a.gif"):
        (tmp_path / name).write_text("old")
    with pytest.raises(error):
        film(Watched(step, error), Drive(seed=3, limit=20), tmp_path / "a")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a.mp4": "old", "a.gif": "old"}


def test_drive_film_of_which_ffmpeg_lost_pictures_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").write_text("old")
    append, drawn = Format.Writer.append_data, []

    def lose_every_third(writer, picture):
        drawn.append(picture)
        if len(drawn) % 3:
            append(writer, picture)

    monkeypatch.setattr(Format.Writer, "append_data", lose_every_third)
    with pytest.raises(OSError, match="ffmpeg wrote 4 of 6 pictures"):
        film(Expert(), Drive(seed=3, limit=12), tmp_path / "a")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a.mp4": "old"}


def test_drive_film_replaces_old_files_by_whole_ones(tmp_path):
    for name in ("a.mp4", "a.gif"):
        (tmp_path / name).write_text("old")
    film(Expert(), Drive(seed=3, limit=5), tmp_path / "a")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.gif", "a.mp4"]
    assert [len(read(tmp_path / name)[0]) for name in ("a.mp4", "a.gif")] == [3, 1]
