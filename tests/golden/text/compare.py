#!/usr/bin/env python3
"""Compares prompt cleaning and token ids with the reference on fresh random texts (Python packages as in make.py).

    python tests/golden/text/compare.py build/tests/unit/text/text_lines [--seed N] [--count 1000]

Prints the seed; exits with 1 when anything differs. SentencePiece's own NFKC maps and more regular expressions are tried in addition to make.py's
variants, and spiece.model files of every kind are compared with libsentencepiece itself. Known differences are left out: characters that Unicode has
gained since this Python's tables (a mark then moves past others, U+1E08F), or since those of the tokenizers library, which that library then does not
decompose (U+A7F2 and U+1FBF4 under NFKD) or does not treat as combining marks (or treats as one, U+1CF2); [[:punct:]], which contains symbols or not,
depending on the release of Oniguruma; and user-defined pieces of a spiece.model that fit a text in several equally good ways ("aaa" in "aaaa"), where
libsentencepiece's choice depends on the rounding of its sums."""
import argparse
import base64
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import make
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers.normalizers import NFKD, StripAccents
from tokenizers import Tokenizer

POOLS = [make.EMOJI, make.COMBINING, make.WIDE, make.QUOTES, make.CONTROLS, make.SPACES, make.ENTITIES]
REFERENCES = ["&", "#", "x", "X", ";", "amp", "lt", "not", "notin", "it", "copy", "0", "1", "38", "A", "f", "&#", "&#x",
              "<", "\n", " ", "é", "CENT", "EACUTE", "acE", "frac", "12", "Eacute"]


STRIP_ACCENTS, DECOMPOSE = StripAccents(), NFKD()


def disputed_mark(c):
    """Whether this character is a combining mark has changed since the library's Unicode tables."""
    return unicodedata.category(c).startswith("M") != (STRIP_ACCENTS.normalize_str(c) == "")


def unassigned(c):
    """Says whether this Python's Unicode tables lack the character; those of the library, which are older, then lack it, too."""
    return unicodedata.category(c) == "Cn"


def newer_decomposition(c):
    """Says whether the character has a decomposition that the library's Unicode tables lack."""
    return unicodedata.normalize("NFKD", c) != c and DECOMPOSE.normalize_str(c) == c


def any_char(rng):
    while True:
        c = rng.choice([rng.randint(0, 0x2FF), rng.randint(0x300, 0xFFFF), rng.randint(0xFF00, 0xFFEF),
                        rng.randint(0x10000, 0x10FFFF)])
        if 0xD800 <= c <= 0xDFFF:
            continue
        c = chr(c)
        if not unassigned(c) and not disputed_mark(c) and not newer_decomposition(c):
            return c


def random_texts(rng, count):
    for _ in range(count):
        yield make.mixed(rng, POOLS, rng.randint(1, 12))
        yield "".join(rng.choice(rng.choice(POOLS)) for _ in range(rng.randint(1, 10)))
        yield "".join(rng.choice(REFERENCES) for _ in range(rng.randint(1, 12)))
        yield "".join(any_char(rng) for _ in range(8))


def full_map(name):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f g"] * 20), model_writer=out, vocab_size=12, model_type="unigram",
        hard_vocab_limit=False, minloglevel=2, normalization_rule_name=name)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


# The engine hands these expressions to Oniguruma, as the library does.
REGEXES = [("a|b+c?", "x"), ("(?:fox|red) *", "cat "), ("(?<=a)b", ""), ("\\p{L}++(?=\\d|!)", "W"), ("[\\p{Ll}&&[^a-c]]{2}", " "),
           ("(\\w)\\1", "y"), ("(?i)FOX\\b", "dog"), ("^\\s+|\\s+$", ""), ("[^\\x00-\\x7F]{2,3}?", "é"), ("\\R|\\t", "▁")]


def spiece_models(rng):
    for name in ("spiece.model", "bytes.model"):
        yield name, (make.HERE / "small" / name).read_bytes()
    yield "the shipped model's", (make.HERE.parents[2] / "models/sprites/tokenizer/spiece.model").read_bytes()
    yield from make.spiece_kinds(rng)
    for rule in ("nfkc", "nmt_nfkc", "nmt_nfkc_cf"):
        yield rule, make.train(rng, 900, normalization_rule_name=rule, remove_extra_whitespaces=rule != "nfkc")


def repeated_pieces(rng, model, count):
    """Repeats pieces two and three times in a row. If a piece written twice is itself a piece, two ways to
    split the text are equally good but for rounding."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    pieces = [p.piece for p in proto.pieces if p.type in (1, 4) and "▁" not in p.piece]
    return ["".join(rng.choice(pieces) * rng.randint(1, 3) for _ in range(rng.randint(2, 9))) for _ in range(count)]


def as_good(processor):
    """Returns a function that says whether two lists of pieces spell one text, and their scores add up to the same but for rounding."""

    def alike(one, other):
        spelt = ["".join(processor.id_to_piece(i) for i in ids) for ids in (one, other)]
        sums = [sum(processor.get_score(i) for i in ids) for ids in (one, other)]
        return spelt[0] == spelt[1] and abs(sums[0] - sums[1]) <= 1e-5 * abs(sums[0])

    return alike


def differences(name, command, texts, expected, alike=lambda one, other: False):
    """Returns what differs, and is not alike."""
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    run = subprocess.run(command, input=lines, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{name}: {run.stderr}")
    got = [json.loads(line) for line in run.stdout.splitlines()]
    bad = [(t, e, g) for t, e, g in zip(texts, expected, got, strict=True) if e != g and not alike(e, g)]
    print(f"{name}: {len(texts)} texts, {len(bad)} differ")
    for t, e, g in bad[:3]:
        print("  text", ascii(t), "\n    reference", ascii(e), "\n    ours     ", ascii(g))
    return len(bad)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("text_lines")
    args.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    args.add_argument("--count", type=int, default=1000)
    args = args.parse_args()
    print("seed", args.seed)
    rng = random.Random(args.seed)
    texts = list(random_texts(rng, args.count * 5))
    bad = differences("cleaning", [args.text_lines, "clean"], texts, [make.prompt_clean(t) for t in texts])

    base = make.base_file((make.HERE / "small" / "spiece.model").read_bytes())
    variants = list(make.variants(base))
    for rule in ("nmt_nfkc", "nmt_nfkc_cf"):
        section = {"type": "Precompiled", "precompiled_charsmap": full_map(rule)}
        variants.append((rule, {"normalizer": section}))
        variants.append((rule + ", first", {"normalizer": section, "pre_tokenizer": make.metaspace("first")}))
    for pattern, content in REGEXES:
        variants.append((f"regex {pattern}", {"normalizer": {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}}))
    with tempfile.TemporaryDirectory() as folder:
        for name, model in spiece_models(rng):
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            path = pathlib.Path(folder) / "spiece.model"
            path.write_bytes(model)
            texts = make.spiece_texts(rng, args.count) + [t for t in random_texts(rng, args.count // 4) if "\0" not in t]
            texts += repeated_pieces(rng, model, args.count)
            bad += differences(f"spiece, {name}", [args.text_lines, "encode", str(path)], texts,
                               [make.fused(processor, t) for t in texts], **({"alike": as_good(processor)} if "user-defined" in name else {}))
        path = str(pathlib.Path(folder) / "tokenizer.json")
        for name, sections in variants:
            tokenizer = Tokenizer.from_str(json.dumps(dict(base, **sections)))
            pathlib.Path(path).write_text(tokenizer.to_str())
            texts = make.token_texts(rng, args.count) + list(random_texts(rng, args.count // 4))
            bad += differences(name, [args.text_lines, "encode", path], texts,
                               [make.ids_of(tokenizer, t) for t in texts])
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
