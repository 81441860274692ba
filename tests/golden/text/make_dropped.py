#!/usr/bin/env python3
"""Makes dropped.json: the parts that the tokenizers library cuts off texts that are too long for small/tokenizer.json.

    python tests/golden/text/make_dropped.py        # tokenizers 0.23.3; seed 20261126

[{"text", "length", "dropped", "from"}]: dropped is the number of tokens (the end token aside) that its truncation to
`length` leaves out, and from is the text from the beginning of the word with the first of these tokens (in a text without spaces, from the token
itself). Texts are already in normal form, so that offsets are the same before and after normalisation."""
import json
import pathlib
import random

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20261126
ENGLISH = ("red fox jumps over the lazy dog while two blue birds fly slowly above a green hill at night robot cinematic shot "
           "of an old snow rain sunset dragon walking glowing neon city street").split()
CHINESE = "一只红色的狐狸跳过懒狗夜晚城市街道"


def main():
    rng = random.Random(SEED)
    whole = Tokenizer.from_file(str(HERE / "small" / "tokenizer.json"))
    out = []
    for length in (512, 512, 512, 226, 64, 16, 8, 2):
        for spaced in (True, False):
            count = rng.randint(length, 2 * length)
            text = (" ".join(rng.choice(ENGLISH) for _ in range(count)) if spaced
                    else "".join(rng.choice(CHINESE) for _ in range(count)))
            full = whole.encode(text, add_special_tokens=False)
            cut = Tokenizer.from_str(whole.to_str())
            cut.enable_truncation(length)
            kept = len(cut.encode(text).ids) - 1  # without the end token
            if kept >= len(full.ids):
                continue
            begin = full.offsets[kept][0]
            if spaced:
                begin = text.rfind(" ", 0, begin + (text[begin] == " ")) + 1 if text[begin] != " " else begin + 1
            out.append({"text": text, "length": length, "dropped": len(full.ids) - kept, "from": text[begin:]})
    # One text fits exactly, and one has a token too many.
    text = ENGLISH[0]
    while len(whole.encode(text).ids) < 64:
        text += " " + ENGLISH[0]
    count = len(whole.encode(text).ids)
    out.append({"text": text, "length": count, "dropped": 0, "from": ""})
    (HERE / "dropped.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
