"""Unpacking with a limit: a small file of others cannot fill the memory."""

import gzip
import io
import zipfile

RATIO = 100  # times its size that a packed file may have when unpacked; tables and images have 5 to 30
FLOOR = 64_000_000  # bytes that any file may have when unpacked


def most_bytes(packed: int) -> int:
    """Bytes that a packed file of this size may unpack to.

    Example:
        >>> most_bytes(10), most_bytes(10**9)
        (64000000, 100000000000)
    """
    return max(FLOOR, RATIO * packed)


def gunzip(data: bytes) -> bytes:
    """Unpack gzip; a ValueError if it is more than `most_bytes`, and whatever gzip raises for damaged data.

    Example:
        >>> gunzip(gzip.compress(b"hello"))
        b'hello'
    """
    limit = most_bytes(len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise ValueError(too_much(limit))
    return found


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member of a zip file; a ValueError if it unpacks to more than `most_bytes`."""
    member = archive.getinfo(name)
    limit = most_bytes(member.compress_size)
    if member.file_size > limit:  # zipfile gives no more than what is said here
        raise ValueError(f"{name} {too_much(limit)}")
    return archive.read(member)


def too_much(limit: int) -> str:
    """What is wrong with a file beyond a limit."""
    return f"unpacks to more than {limit:,} bytes; if it is right, unpack it by other means"
