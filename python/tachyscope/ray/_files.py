"""Where the videos of a table go: a folder, or an object store through pyarrow's file systems. A file has its name only when it is complete."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import uuid
from typing import Any

from .. import _inputs
from .._engine import NotFound

MOST_INPUT = 1 << 32  # bytes of a picture or a sound that is read from a store


class Files:
    """A folder that every machine of the cluster sees under the same path, or a place in an object store: `s3://…`,
    `gs://…`, or a path in pyarrow's `filesystem`."""

    def __init__(self, where: str | os.PathLike[str], filesystem: Any = None):
        self._where = os.fsdecode(_inputs.text("folder", where))
        if not self._where:
            raise _inputs.wrong("folder", "expected a folder or the address of one")
        self._filesystem = filesystem
        self._is_folder = filesystem is None and "://" not in self._where
        if self._is_folder:
            self._where = os.path.abspath(self._where)

    def path(self, name: str) -> str:
        return f"{self._where.rstrip('/')}/{name}"

    def has(self, name: str) -> bool:
        if self._is_folder:
            return os.path.exists(self.path(name))
        from pyarrow import fs
        system, path = self._at(name)
        return bool(system.get_file_info(path).type == fs.FileType.File)

    def read(self, name: str) -> bytes | None:
        """Returns a small file's content, or None if there is none."""
        if self._is_folder:
            try:
                with open(self.path(name), "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return None
        system, path = self._at(name)
        try:
            with system.open_input_stream(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def put(self, name: str, source: str) -> None:
        """Copies a file of this machine here. Whoever writes the same name at the same time leaves one whole file."""
        if not self._is_folder:
            system, path = self._at(name)
            if self._filesystem is not None:
                system.create_dir(os.path.dirname(path), recursive=True)
            # A store shows an object when its upload is complete.
            with open(source, "rb") as file, system.open_output_stream(path) as stream:
                shutil.copyfileobj(file, stream, 1 << 20)
            return
        os.makedirs(self._where, exist_ok=True)
        part = os.path.join(self._where, f".{name}.{uuid.uuid4().hex}.part")
        try:
            with open(source, "rb") as file, open(part, "wb") as to:
                shutil.copyfileobj(file, to, 1 << 20)
                to.flush()
                os.fsync(to.fileno())
            os.replace(part, self.path(name))
        except FileNotFoundError:  # somebody else has completed it just now, and tidied
            if not os.path.exists(self.path(name)):
                raise
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise
        for other in glob.glob(os.path.join(glob.escape(self._where), f".{glob.escape(name)}.*.part")):  # left by one that was killed
            with contextlib.suppress(FileNotFoundError):
                os.unlink(other)

    def _at(self, name: str) -> tuple[Any, str]:
        if self._filesystem is not None:
            return self._filesystem, self.path(name)
        from pyarrow import fs
        system, path = fs.FileSystem.from_uri(self._where)
        return system, f"{path.rstrip('/')}/{name}"


def fetched(value: str, folder: str, field: str) -> str:
    """Returns the path of a file: its own, or that of a copy in `folder` if the value is an address of an object store."""
    if "://" not in value:
        return value
    from pyarrow import fs
    try:
        system, path = fs.FileSystem.from_uri(value)
        info = system.get_file_info(path)
    except (OSError, ValueError) as error:
        raise _inputs.wrong(field, f"cannot read {value}: {error}") from None
    if info.type != fs.FileType.File:
        raise NotFound(3, f"`{field}`: there is no file {value}")
    if info.size > MOST_INPUT:
        raise _inputs.wrong(field, f"expected a file of at most {MOST_INPUT} bytes, got {info.size}")
    copy = os.path.join(folder, f"{field}{os.path.splitext(path)[1]}")
    with system.open_input_stream(path) as stream, open(copy, "wb") as to:
        shutil.copyfileobj(stream, to, 1 << 20)
    return copy
