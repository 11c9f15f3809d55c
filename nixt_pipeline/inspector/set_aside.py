"""Files that lie beside logs and are not read: which these are, and the reason in words.

By name: leftovers of copies and editors, and what is certainly no log. By content: archives, core dumps, checkpoints.
"""

import bz2
import lzma
import re
import tarfile
import zlib

import pyarrow as pa

from nixt_pipeline.inspector.decompression import XZ_MEMORY_BYTES, compression_of

# Certainly no logs; they are named but not read.
_FOREIGN_NAME = re.compile(
    r".+\.(?:bin|pt|pth|ckpt|safetensors|npy|npz|parquet|duckdb|db|sqlite|so|py|pyc|sh|html|png|jpg|pdf"
    r"|nsys-rep|qdrep|toml|ya?ml)",
    re.IGNORECASE | re.DOTALL,
)
# What an NFS client makes of a file that was deleted while it was open: its writer goes on in it.
_NFS_DELETED = re.compile(r"\.nfs[0-9a-fA-F]{8,}")
# rsync writes a copy of `name` into `.name.Xa3f9Q` until it is complete.
_RSYNC_COPY = re.compile(r"\..+\.[A-Za-z0-9]{6}", re.DOTALL)
_LEFTOVERS = (
    (re.compile(r".+\.(?:part|partial|filepart|crdownload|tmp)", re.I | re.S), "an unfinished copy"),
    (re.compile(r".+\.sw[a-p]", re.I | re.S), "an editor's swap file"),
    (re.compile(r".+~|#.+#", re.S), "an editor's copy"),
)
_ARCHIVES = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"070701", "cpio"),
    (b"!<arch>\n", "ar"),
)
# Compressions that are not read, by what their files begin with.
_UNREAD_COMPRESSIONS = (
    # The older format of xz has no magic: usual properties, a dictionary, the size (unknown, or below 1 TiB), a zero.
    (re.compile(rb"\x5d\x00\x00.{2}(?:\xff{8}|.{5}\x00{3})\x00", re.DOTALL), "lzma"),
    (re.compile(rb"LZIP[\x00\x01]"), "lzip"),
    (re.compile(rb"\x1f\x9d"), "compress"),
    (re.compile(rb"\x89LZO\x00\r\n\x1a\n"), "lzop"),
    (re.compile(rb"\xff\x06\x00\x00sNaPpY"), "snappy"),
)
# What certainly holds no log, whatever its name, by what such files begin with.
_FOREIGN_CONTENTS = (
    (re.compile(rb"\x7fELF"), "a core dump or a program"),
    (re.compile(rb"MDMP"), "a minidump"),
    # A pickle's protocol and its first operation: torch.save's magic number, a frame, a dictionary or list, a global.
    (re.compile(rb"\x80[\x02-\x05][\x8a\x95}\]c(]"), "a pickle"),
    # The size of the header, below 4 GiB, and the header.
    (re.compile(rb".{4}\x00{4}\{\"", re.DOTALL), "safetensors"),
    # A record of TFRecord: its size, its checksum, and the time with which an event begins.
    (re.compile(rb".\x00{7}.{4}\x09", re.DOTALL), "TensorBoard events"),
    (re.compile(rb"\x89HDF\r\n\x1a\n"), "HDF5"),
    (re.compile(rb"\x93NUMPY"), "NumPy"),
    (re.compile(rb"PAR1"), "Parquet"),
    (re.compile(rb"ARROW1\x00\x00"), "Arrow"),
    (re.compile(rb"SQLite format 3\x00"), "SQLite"),
    (re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|%PDF-"), "a picture or a document"),
)
_TAR_BLOCK_BYTES = 512


def foreign_name_reason(name: str) -> str | None:
    """Why a file of this name is certainly no log; None for any other."""
    return f"no log by its name (.{name.rpartition('.')[2]})" if _FOREIGN_NAME.fullmatch(name) else None


def foreign_content_reason(head: bytes) -> str | None:
    """Why a file that begins with `head` is certainly no log; None for any other."""
    kind = next((kind for beginning, kind in _FOREIGN_CONTENTS if beginning.match(head)), None)
    return f"no log by its content ({kind})" if kind else None


def leftover_reason(path: str) -> str | None:
    """Why the file at `path` (with "/") is not read although it may hold records: the copy or the leftover that its
    name says it is. None for any other.

    What NFS keeps of a deleted file that is still written to is no such leftover: it may be all there is of a process.
    """
    *folders, name = path.split("/")
    hidden = next((folder for folder in folders if folder.startswith(".")), None)
    if hidden is not None:
        return f"in the hidden folder {hidden}"
    if _NFS_DELETED.fullmatch(name):
        return None
    for pattern, reason in _LEFTOVERS:
        if pattern.fullmatch(name):
            return reason
    if _RSYNC_COPY.fullmatch(name):
        return "a hidden file, as rsync writes while it copies"
    return "a hidden file" if name.startswith(".") else None


def archive_reason(head: bytes, compression: str) -> str | None:
    """Why a file that begins with `head` is not read if it is an archive, or compressed in a way that is not read,
    whatever its name; None for any other."""
    kind = next((kind for magic, kind in _ARCHIVES if head.startswith(magic)), None)
    unread = next((kind for magic, kind in _UNREAD_COMPRESSIONS if magic.match(head)), None)
    if unread is not None and kind is None:
        return f"compressed with {unread}, which is not read: unpack it, or pack it with gzip, bzip2, xz, zstd or lz4"
    beginning = unfolded_beginning(head, compression)
    if kind is None and is_tar(beginning):
        kind = "tar" if compression == "none" else f"tar, {compression}"
    if kind is not None:
        return f"an archive ({kind}): unpack it to have the logs in it read"
    inner = "none" if compression == "none" else compression_of(beginning)
    return None if inner == "none" else f"compressed twice ({inner} within {compression}): unpack it once"


def is_tar(block: bytes) -> bool:
    """Whether a tar archive begins like this: by the checksum of its first header, in all of tar's formats."""
    try:
        tarfile.TarInfo.frombuf(block[:_TAR_BLOCK_BYTES], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def unfolded_beginning(head: bytes, compression: str, n_bytes: int = _TAR_BLOCK_BYTES) -> bytes:
    """The first `n_bytes` of what `head` unfolds to, fewer when it is too short or damaged."""
    try:
        match compression:
            case "none":
                return head[:n_bytes]
            case "gzip":
                return zlib.decompressobj(wbits=31).decompress(head, n_bytes)
            case "bzip2":
                return bz2.BZ2Decompressor().decompress(head, n_bytes)
            case "xz":
                return lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES).decompress(head, n_bytes)
            case _:
                return bytes(pa.CompressedInputStream(pa.BufferReader(head), compression).read(n_bytes))
    except (zlib.error, lzma.LZMAError, OSError, EOFError):
        return b""
