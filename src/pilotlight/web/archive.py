"""Unpacks what an agent brought, which nobody vouches for."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath

from pilotlight.errors import FormatError
from pilotlight.recording.zstd import ZstdDecompressor, ZstdError

BYTES_LIMIT = 1 << 30
FILES_LIMIT = 20_000
_BLOCK = 1 << 20


def unpack(archive: Path, folder: Path) -> None:
    """A tar archive under zstd; plain files below the folder only, within limits."""
    plain = folder / "archive.tar"
    _expand(archive, plain)
    count = 0
    try:
        with tarfile.open(plain, "r:") as tar:
            for member in tar:
                count += 1
                if count > FILES_LIMIT:
                    raise FormatError(f"{archive.name}: more than {FILES_LIMIT} files in it")
                place = PurePosixPath(member.name)
                if not member.isfile() or place.is_absolute() or ".." in place.parts:
                    continue
                inner = tar.extractfile(member)
                if inner is None:
                    continue
                target = folder / "files" / place
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    while block := inner.read(_BLOCK):
                        file.write(block)
    except (tarfile.TarError, EOFError) as error:
        raise FormatError(f"{archive.name}: damaged ({error})") from None
    finally:
        plain.unlink(missing_ok=True)


def _expand(archive: Path, plain: Path) -> None:
    decompressor = ZstdDecompressor()
    size = 0
    try:
        with archive.open("rb") as source, plain.open("wb") as target:
            while not decompressor.eof:
                block = source.read(_BLOCK) if decompressor.needs_input else b""
                if not block and decompressor.needs_input:
                    raise FormatError(f"{archive.name}: cut off")
                data = decompressor.decompress(block, _BLOCK)
                size += len(data)
                if size > BYTES_LIMIT:
                    raise FormatError(f"{archive.name}: more than {BYTES_LIMIT} bytes unpacked")
                target.write(data)
    except OSError as error:
        raise FormatError(f"{archive.name}: {error.strerror}") from None
    except ZstdError as error:
        raise FormatError(f"{archive.name}: not zstd data ({error})") from None
