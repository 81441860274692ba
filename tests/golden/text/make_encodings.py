#!/usr/bin/env python3
"""Makes encodings/ and encodings.json: one text as editors save it, by Python's own codecs (Python 3.11).

    python tests/golden/text/make_encodings.py

encodings.json has {"file", "lines"} for each file that is read, and {"file", "line", "byte", "says"} for each that is refused: the place where
Python's decoder stops, counted from 1, the byte within its line."""
import codecs
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
LINES = ["# a comment", "a red circle moves right", "一只红色的狐狸跳过懒狗", "", "Füchse & 🦊 at night"]


def place(data, error):
    before = data[:error].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1


def stops(data):
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as e:
        return min(e.start, data.index(b"\0") if b"\0" in data else e.start)
    return data.index(b"\0")


def main():
    folder = HERE / "encodings"
    folder.mkdir(exist_ok=True)
    read, refused = [], []
    for ends, name in (("\n", "lf"), ("\r\n", "crlf"), ("\r", "cr")):
        text = ends.join(LINES) + ends
        for encoding, mark in (("utf-8", b""), ("utf-8", codecs.BOM_UTF8), ("utf-16-le", codecs.BOM_UTF16_LE),
                               ("utf-16-be", codecs.BOM_UTF16_BE)):
            file = f"{encoding}{'-bom' if mark else ''}-{name}.txt"
            (folder / file).write_bytes(mark + text.encode(encoding))
            read.append({"file": file, "lines": LINES})
    # These are two Windows files joined together, and one whose last line has no line end.
    joined = codecs.BOM_UTF8 + "a\r\n".encode() + codecs.BOM_UTF8 + "# b\r\nc".encode()
    (folder / "joined.txt").write_bytes(joined)
    read.append({"file": "joined.txt", "lines": ["a", "# b", "c"]})
    for encoding, lines, says in (("gbk", LINES[:3], "not UTF-8"), ("latin-1", [LINES[0], "déjà vu"], "not UTF-8"),
                                  ("shift_jis", ["ok", "猫が窓辺に座っている"], "not UTF-8"),
                                  ("utf-16-le", LINES[:2], "UTF-16 without a byte order mark"),
                                  ("utf-16-be", LINES[:2], "UTF-16 without a byte order mark"),
                                  ("utf-32-le", LINES[:2], "UTF-32"), ("utf-32", LINES[:2], "UTF-32"),
                                  ("utf-8", ["a", "b\0c"], "a zero byte")):
        data = "\r\n".join(lines).encode(encoding)
        line, byte = place(data, stops(data))
        file = f"refused-{encoding}.txt"
        (folder / file).write_bytes(data)
        refused.append({"file": file, "line": line, "byte": byte, "says": says})
    (HERE / "encodings.json").write_text(json.dumps({"read": read, "refused": refused}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
