"""Files of data sets: found, decompressed, checked, fetched, and their arrays kept."""

import gzip
import hashlib
import io
import os
import socket
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from nacre._util import unpack
from nacre.data.files import array_cache, fetch, store
from nacre.data.files.catalogue import CATALOG, CatalogEntry, Form, SourceFile
from support.refused import refused

TEXT = b"time,value\n" + b"1,2\n" * 500


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("_txt", ".txt"), data)
    return file.getvalue()


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def define(monkeypatch):
    """Put a data set named toy into the catalogue; forms are lists of files."""

    def put(*forms):
        made = tuple(Form(f"form {i}", tuple(files)) for i, files in enumerate(forms))
        monkeypatch.setitem(CATALOG, "toy", CatalogEntry("a toy", "nowhere:nothing", made))

    return put


def toy(name="toy.txt", data=TEXT, url=None):
    return SourceFile(name, "toys", sha(data), url)


def test_a_file_is_found_plain_or_compressed_in_a_root_or_its_folder(tmp_path, define):
    define([toy(url="http://127.0.0.1:9/all.zip")])
    packed = {".gz": gzip.compress(TEXT), ".zip": zipped(inner__toy_txt=TEXT, toy_md=b"no")}
    places = ("toy.txt", "toys/toy.txt", "toy.txt.gz", "toys/toy.txt.gz", "toys/all.zip")
    for root, place in ((tmp_path / str(number), place) for number, place in enumerate(places)):
        path = write((root / place).parent, Path(place).name, packed.get(Path(place).suffix, TEXT))
        source = fetch.obtain("toy", root)
        assert source.contents == {"toy.txt": TEXT}, place
        assert source.sha256 == {"toy.txt": hashlib.sha256(TEXT).hexdigest()}, place
        assert source.paths == {"toy.txt": path}
        assert source.form == "form 0"


def write(folder, name, data=TEXT):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


def test_roots_are_searched_in_order(tmp_path, define, monkeypatch):
    define([toy()])
    cache = write(tmp_path / "cache" / "toys", "toy.txt")
    assert store.find("toy").paths == (cache,)
    shared = write(tmp_path / "shared", "toy.txt")
    monkeypatch.setenv("NACRE_DATA", str(tmp_path / "shared"))
    assert store.find("toy").paths == (shared,)
    mine = write(tmp_path / "mine", "toy.txt")
    assert store.find("toy", tmp_path / "mine").paths == (mine,)
    mine.unlink()
    assert store.find("toy", tmp_path / "mine").paths == (shared,)


def test_a_fetched_official_form_beats_a_shared_stand_in_but_not_the_folder_one_names(
    tmp_path, define, monkeypatch
):
    define([toy("best.txt")], [toy("stand-in.txt")])
    monkeypatch.setenv("NACRE_DATA", str(tmp_path / "shared"))
    write(tmp_path / "shared", "stand-in.txt")
    assert store.find("toy").form.text == "form 1"
    write(tmp_path / "cache", "best.txt")
    assert store.find("toy").form.text == "form 0"
    assert store.find("toy", tmp_path / "shared").form.text == "form 1"


def test_a_form_needs_all_its_files(tmp_path, define):
    define([toy("a.txt"), toy("b.txt")])
    write(tmp_path, "a.txt")
    assert store.find("toy", tmp_path) is None
    write(tmp_path, "b.txt")
    assert [path.name for path in store.find("toy", tmp_path).paths] == ["a.txt", "b.txt"]


def test_folders_that_do_not_exist_are_named(tmp_path, define, monkeypatch):
    define([toy()])
    with pytest.raises(FileNotFoundError, match="data_dir is .*nowhere.* no folder"):
        store.find("toy", tmp_path / "nowhere")
    monkeypatch.setenv("NACRE_DATA", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match=r"\$NACRE_DATA is .*gone"):
        store.find("toy")


def test_the_cache_is_the_users_unless_named_otherwise(monkeypatch, tmp_path):
    assert store.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("NACRE_CACHE")
    assert store.cache_folder().name == "nacre"


def test_a_plain_file_that_is_not_the_known_one_is_refused(tmp_path, define):
    define([toy()])
    for changed in (TEXT[:-7], TEXT.replace(b"2", b"3", 1), TEXT + b"\n", b""):
        path = write(tmp_path, "toy.txt", changed)
        with pytest.raises(ValueError, match="not the toy.txt that nacre knows") as error:
            fetch.obtain("toy", tmp_path)
        digests = sha(changed).split(":")[1], sha(TEXT).split(":")[1]
        wanted = [str(path), f"{len(changed):,} bytes", *digests, f"delete {path} and run `nacre data get toy`"]
        assert all(part in str(error.value) for part in wanted)


def test_a_compressed_file_that_is_cut_off_is_refused(tmp_path, define):
    define([toy(url="http://127.0.0.1:9/all.zip")])
    noise = TEXT + os.urandom(2000)
    for name, packed in (("all.zip", zipped(toy_txt=noise)), ("toy.txt.gz", gzip.compress(noise))):
        for keep in (0.5, 0.99):
            path = write(tmp_path, name, packed[: int(len(packed) * keep)])
            with refused(f"{name} is damaged or cut off .*nacre data get toy"):
                fetch.obtain("toy", tmp_path)
        path.unlink()


def test_an_archive_must_hold_the_file_once(tmp_path, define):
    define([toy(url="http://127.0.0.1:9/all.zip")])
    for count, members in ((0, {"other_txt": TEXT}), (2, {"a__toy_txt": TEXT, "b__toy_txt": TEXT})):
        write(tmp_path, "all.zip", zipped(**members))
        with refused(f"the archive holds toy.txt {count} times, wanted once"):
            fetch.obtain("toy", tmp_path)


def test_reading_an_archive_writes_nothing(tmp_path, define):
    define([toy(url="http://127.0.0.1:9/all.zip")])
    write(tmp_path / "in", "all.zip", zipped(**{"..__..__toy_txt": TEXT}))
    assert fetch.obtain("toy", tmp_path / "in").contents == {"toy.txt": TEXT}
    assert files_below(tmp_path) == ["in/all.zip"]


def test_an_unknown_checksum_is_said_in_the_form(tmp_path, define):
    define([SourceFile("toy.txt", "toys", None)])
    write(tmp_path, "toy.txt", b"whatever")
    assert fetch.obtain("toy", tmp_path).form == "form 0 (checksum not known to nacre)"


def test_md5_where_nothing_better_is_known(tmp_path, define):
    define([SourceFile("toy.txt", "toys", "md5:" + hashlib.md5(TEXT).hexdigest())])
    path = write(tmp_path, "toy.txt")
    assert fetch.obtain("toy", tmp_path).form == "form 0"
    path.write_bytes(TEXT + b"x")
    with pytest.raises(ValueError, match="have md5"):
        fetch.obtain("toy", tmp_path)


def test_every_official_file_has_an_address_and_every_stand_in_a_checksum():
    for name, entry in CATALOG.items():
        for form in entry.forms:
            assert form.fetchable == form.text.startswith("official"), name
            assert all(file.checksum or form.fetchable for file in form.files)
            assert all((file.url or "https://").startswith("https://") for file in form.files)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        status, body, length = self.server.answers.get(self.path, (404, b"", 0))
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def running():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def server(running):
    running.answers, running.asked = {}, []
    return running


def address(server, name):
    return f"http://127.0.0.1:{server.server_port}/{name}"


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_missing_file_is_fetched_once_and_kept_as_it_came(tmp_path, define, server):
    bodies = {"toy.txt": TEXT, "toy.txt.gz": gzip.compress(TEXT), "all.zip": zipped(toy_txt=TEXT)}
    for name, body in bodies.items():
        define([toy(url=address(server, name))])
        server.asked.clear()
        server.answers["/" + name] = (200, body, len(body))
        for _ in range(2):
            assert fetch.obtain("toy").contents == {"toy.txt": TEXT}, name
        assert server.asked == ["/" + name]
        assert files_below(tmp_path) == [f"cache/toys/{name}"]
        (tmp_path / "cache" / "toys" / name).unlink()


def refused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_failed_download_says_what_is_missing_and_where_to_get_it(tmp_path, define, server):
    for why, answer in (
        ("404 Client Error", (404, b"", 0)),
        ("500 Server Error", (500, b"", 0)),
        ("IncompleteRead", (200, TEXT[:100], len(TEXT))),
        ("refused", None),
    ):
        url = address(server, "toy.txt") if answer else f"http://127.0.0.1:{refused_port()}/toy.txt"
        define([toy(url=url)])
        server.answers["/toy.txt"] = answer
        with pytest.raises(FileNotFoundError, match="toy.txt is missing and could not be fetched") as error:
            fetch.obtain("toy")
        folder = tmp_path / "cache" / "toys"
        assert all(part in str(error.value) for part in (url, f"into {folder}", "--data-dir", why)), why
        assert "\n" not in str(error.value)
        assert files_below(tmp_path) == []


def test_another_file_than_expected_is_not_kept(tmp_path, define, server):
    for name, body, checksum, problem in (
        ("toy.txt", b"<html>log in</html>", sha(TEXT), "toy.txt is not the toy.txt that nacre knows"),
        ("all.zip", zipped(toy_txt=TEXT)[:-30], None, "all.zip is damaged or cut off"),
    ):
        define([SourceFile("toy.txt", "toys", checksum, address(server, name))])
        server.answers["/" + name] = (200, body, len(body))
        with refused(f"gave another file than expected, which was not kept: {problem}"):
            fetch.obtain("toy")
        assert files_below(tmp_path) == []


def test_a_download_without_an_end_is_given_up(tmp_path, define, server, monkeypatch):
    define([toy(url=address(server, "toy.txt"))])
    server.answers["/toy.txt"] = (200, TEXT, len(TEXT))
    monkeypatch.setattr(fetch, "MOST_BYTES", len(TEXT))
    assert fetch.obtain("toy").contents == {"toy.txt": TEXT}
    (tmp_path / "cache" / "toys" / "toy.txt").unlink()
    monkeypatch.setattr(fetch, "MOST_BYTES", len(TEXT) - 1)
    with refused(f"toy.txt gives more than {len(TEXT) - 1:,} bytes, too many for toy.txt"):
        fetch.obtain("toy")
    assert files_below(tmp_path) == []


def test_a_small_archive_of_a_huge_file_is_refused(tmp_path, define, monkeypatch):
    monkeypatch.setattr(unpack, "FLOOR", 1000)
    for name, packed in (("toy.txt.gz", gzip.compress(b"0" * 10**6)), ("all.zip", zipped(toy_txt=b"0" * 10**6))):
        define([toy(url=f"http://nowhere/{name}")])
        write(tmp_path, name, packed)
        with refused(f"{name} .*unpacks to more than [0-9,]+ bytes"):
            fetch.obtain("toy", tmp_path)
        (tmp_path / name).unlink()


def test_fetching_keeps_what_is_there_and_shows_how_far_it_is(tmp_path, define, server):
    other = os.urandom(100_000)
    define([toy("a.txt", url=address(server, "a.txt")), toy("b.txt", other, address(server, "b.txt"))])
    write(tmp_path, "a.txt")
    server.answers["/b.txt"] = (200, other, len(other))
    seen = []
    found = fetch.fetch("toy", tmp_path, lambda come, total: seen.append((come, total)))
    assert server.asked == ["/b.txt"]
    assert found.paths == (tmp_path / "a.txt", tmp_path / "toys" / "b.txt")
    assert seen[-1] == (100_000, 100_000)
    assert all(0 < come <= total == 100_000 for come, total in seen)


def test_a_folder_that_cannot_be_made_is_named(tmp_path, define, server):
    define([toy(url=address(server, "toy.txt"))])
    write(tmp_path, "cache", b"a file where the folder should be")
    with pytest.raises(OSError, match="toy.txt is missing and cannot be kept as .*NACRE_CACHE"):
        fetch.obtain("toy")


@pytest.fixture
def source(tmp_path, define):
    define([toy()])
    write(tmp_path, "toy.txt")
    return fetch.obtain("toy", tmp_path)


class Parser:
    calls = 0

    def __call__(self, source):
        self.calls += 1
        return {"numbers": np.arange(1000.0), "names": np.array(["A01", "B02"]), "count": np.array(3)}


def same(a, b):
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and np.array_equal(a[k], b[k]) for k in a)


def test_arrays_are_parsed_once(source):
    parse = Parser()
    first, second = (array_cache.cached("toy-1", source, parse) for _ in range(2))
    assert parse.calls == 1
    assert same(first, second)


def test_another_reader_or_other_contents_are_parsed_anew(source):
    parse = Parser()
    array_cache.cached("toy-1", source, parse)
    array_cache.cached("toy-2", source, parse)
    array_cache.cached("toy-1", store.FormContents("", {}, {"toy.txt": "0" * 64}, {}), parse)
    assert parse.calls == 3


def test_a_damaged_cache_is_made_again(source, tmp_path):
    parse = Parser()
    whole = array_cache.cached("toy-1", source, parse)
    (path,) = (tmp_path / "cache" / "parsed").iterdir()
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    at = data.index(b"PK\x01\x02") + 10  # the first entry's compression, now one that nobody knows
    method = data[:at] + b"\x63" + data[at + 1 :]
    damaged = {"cut": data[:middle], "flipped": flipped, "method": method, "empty": b"", "text": b"hello"}
    for calls, (damage, content) in enumerate(damaged.items(), 2):
        path.write_bytes(content)
        for _ in range(2):
            assert same(array_cache.cached("toy-1", source, parse), whole), damage
            assert parse.calls == calls, damage


def test_where_nothing_can_be_kept_reading_goes_on_with_a_warning(source, tmp_path):
    write(tmp_path, "cache", b"a file where the folder should be")
    with pytest.warns(RuntimeWarning, match="cannot keep parsed data in .*NACRE_CACHE"):
        arrays = array_cache.cached("toy-1", source, Parser())
    assert same(arrays, Parser()(source))


def test_a_full_disk_leaves_nothing_half_written(source, tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        array_cache.cached("toy-1", source, Parser())
    assert files_below(tmp_path / "cache") == []
