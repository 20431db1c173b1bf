"""Files of data sets: found, decompressed, checked, fetched, and their arrays kept."""

import gzip
import hashlib
import io
import os
import socket
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from nacre.data.files import array_cache, fetch, store
from nacre.data.files import catalogue as catalog
from nacre.data.files.catalogue import Entry, Form, SourceFile

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
        monkeypatch.setitem(catalog.CATALOG, "toy", Entry("a toy", "nowhere:nothing", made))

    return put


def toy(name="toy.txt", data=TEXT, url=None):
    return SourceFile(name, "toys", sha(data), url)


@pytest.mark.parametrize("place", ["toy.txt", "toys/toy.txt", "toy.txt.gz", "toys/toy.txt.gz", "toys/all.zip"])
def test_a_file_is_found_plain_or_compressed_in_a_root_or_its_folder(place, tmp_path, define):
    define([toy(url="http://127.0.0.1:9/all.zip")])
    packed = {".gz": gzip.compress(TEXT), ".zip": zipped(inner__toy_txt=TEXT, toy_md=b"no")}
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed.get(path.suffix, TEXT))
    source = fetch.obtain("toy", tmp_path)
    assert source.contents == {"toy.txt": TEXT}
    assert source.sha256 == {"toy.txt": hashlib.sha256(TEXT).hexdigest()}
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


@pytest.mark.parametrize("damage", ["cut", "altered", "more", "empty"])
def test_a_plain_file_that_is_not_the_known_one_is_refused(damage, tmp_path, define):
    define([toy()])
    changed = {"cut": TEXT[:-7], "altered": TEXT.replace(b"2", b"3", 1), "more": TEXT + b"\n", "empty": b""}[
        damage
    ]
    path = write(tmp_path, "toy.txt", changed)
    with pytest.raises(ValueError, match="not the toy.txt that nacre knows") as error:
        fetch.obtain("toy", tmp_path)
    digests = sha(changed).split(":")[1], sha(TEXT).split(":")[1]
    wanted = [str(path), f"{len(changed):,} bytes", *digests, f"delete {path} and run `nacre data get toy`"]
    assert all(part in str(error.value) for part in wanted)


@pytest.mark.parametrize("name", ["toy.txt.gz", "all.zip"])
@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_a_compressed_file_that_is_cut_off_is_refused(name, keep, tmp_path, define):
    define([toy(url="http://127.0.0.1:9/all.zip")])
    noise = TEXT + os.urandom(2000)
    packed = gzip.compress(noise) if name.endswith("gz") else zipped(toy_txt=noise)
    write(tmp_path, name, packed[: int(len(packed) * keep)])
    with pytest.raises(ValueError, match=f"{name} is damaged or cut off .*nacre data get toy"):
        fetch.obtain("toy", tmp_path)


@pytest.mark.parametrize("members", [{"other_txt": TEXT}, {"a__toy_txt": TEXT, "b__toy_txt": TEXT}])
def test_an_archive_must_hold_the_file_once(members, tmp_path, define):
    define([toy(url="http://127.0.0.1:9/all.zip")])
    write(tmp_path, "all.zip", zipped(**members))
    with pytest.raises(ValueError, match="the archive holds toy.txt [02] times, wanted once"):
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
    for name, entry in catalog.CATALOG.items():
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


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.answers, running.asked = {}, []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def address(server, name):
    return f"http://127.0.0.1:{server.server_port}/{name}"


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["toy.txt", "toy.txt.gz", "all.zip"])
def test_a_missing_file_is_fetched_once_and_kept_as_it_came(name, tmp_path, define, server):
    define([toy(url=address(server, name))])
    body = {"toy.txt": TEXT, "toy.txt.gz": gzip.compress(TEXT), "all.zip": zipped(toy_txt=TEXT)}[name]
    server.answers["/" + name] = (200, body, len(body))
    for _ in range(2):
        assert fetch.obtain("toy").contents == {"toy.txt": TEXT}
    assert server.asked == ["/" + name]
    assert files_below(tmp_path) == [f"cache/toys/{name}"]


def refused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("problem", ["404", "500", "cut", "refused"])
def test_a_failed_download_says_what_is_missing_and_where_to_get_it(problem, tmp_path, define, server):
    url = f"http://127.0.0.1:{refused_port()}/toy.txt" if problem == "refused" else address(server, "toy.txt")
    define([toy(url=url)])
    answers = {"404": (404, b"", 0), "500": (500, b"", 0), "cut": (200, TEXT[:100], len(TEXT))}
    server.answers["/toy.txt"] = answers.get(problem)
    with pytest.raises(FileNotFoundError, match="toy.txt is missing and could not be fetched") as error:
        fetch.obtain("toy")
    folder = tmp_path / "cache" / "toys"
    why = {"404": "404 Client Error", "500": "500 Server Error", "cut": "IncompleteRead", "refused": "refused"}
    assert all(part in str(error.value) for part in (url, f"into {folder}", "--data-dir", why[problem]))
    assert "\n" not in str(error.value)
    assert files_below(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "body", "checksum", "problem"),
    [
        ("toy.txt", b"<html>log in</html>", sha(TEXT), "toy.txt is not the toy.txt that nacre knows"),
        ("all.zip", zipped(toy_txt=TEXT)[:-30], None, "all.zip is damaged or cut off"),
    ],
)
def test_another_file_than_expected_is_not_kept(name, body, checksum, problem, tmp_path, define, server):
    define([SourceFile("toy.txt", "toys", checksum, address(server, name))])
    server.answers["/" + name] = (200, body, len(body))
    with pytest.raises(ValueError, match=f"gave another file than expected, which was not kept: {problem}"):
        fetch.obtain("toy")
    assert files_below(tmp_path) == []


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
    array_cache.cached("toy-1", store.Source("", {}, {"toy.txt": "0" * 64}, {}), parse)
    assert parse.calls == 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "method", "empty", "text"])
def test_a_damaged_cache_is_made_again(damage, source, tmp_path):
    parse = Parser()
    whole = array_cache.cached("toy-1", source, parse)
    (path,) = (tmp_path / "cache" / "parsed").iterdir()
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    at = data.index(b"PK\x01\x02") + 10  # the first entry's compression, now one that nobody knows
    method = data[:at] + b"\x63" + data[at + 1 :]
    damaged = {"cut": data[:middle], "flipped": flipped, "method": method, "empty": b"", "text": b"hello"}
    path.write_bytes(damaged[damage])
    assert same(array_cache.cached("toy-1", source, parse), whole)
    assert parse.calls == 2
    array_cache.cached("toy-1", source, parse)
    assert parse.calls == 2


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
