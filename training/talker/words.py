"""The tokenizer of the talking-photo model: a small SentencePiece unigram vocabulary of its captions, of ordinary English words and of
the letters, digits and Chinese characters in them; and the equivalent tokenizer.json (../tokenizer.py has both formats).

    python3 words.py --out models/talker/google/umt5-xxl
"""
import argparse
import io
import os
import string
import sys

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import faces
import tokenizer as base


def train(folder, vocab):
    import sentencepiece as spm
    rng = np.random.default_rng(5)
    lines = [faces.caption(m, rng) for _ in range(3000) for m in faces.MOTIONS]
    characters = "".join(sorted({c for line in lines for c in line if ord(c) > 127}))
    english = base.words()[:1200]
    lines += [" ".join(rng.choice(english, 8)) for _ in range(6000)]
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=vocab, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=True, byte_fallback=False, character_coverage=1.0, pad_id=base.PAD, eos_id=base.EOS,
        unk_id=base.UNK, bos_id=-1, max_sentencepiece_length=14, required_chars=characters + string.ascii_letters + string.digits + string.punctuation,
        num_threads=2, minloglevel=1, shuffle_input_sentence=False)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "spiece.model"), "wb") as f:
        f.write(model.getvalue())
    base.convert(folder)


def check(folder):
    import sentencepiece as spm
    from tokenizers import Tokenizer
    sp = spm.SentencePieceProcessor(model_file=os.path.join(folder, "spiece.model"))
    fast = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    rng = np.random.default_rng(99)
    texts = [faces.caption(m, rng) for _ in range(400) for m in faces.MOTIONS] + ["", "a", "Hello, world 42!", "a woman in Paris"]
    longest = 0
    for text in texts:
        a, b = sp.encode(text) + [base.EOS], fast.encode(text).ids
        assert a == b, (text, a, b)
        assert base.UNK not in a, text
        longest = max(longest, len(a))
    print(f"{sp.get_piece_size()} pieces; {len(texts)} texts equal, longest {longest} tokens")


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", default="models/talker/google/umt5-xxl")
    a.add_argument("--vocab", type=int, default=1280)
    a.add_argument("--check", action="store_true")
    args = a.parse_args()
    if not args.check:
        train(args.out, args.vocab)
    check(args.out)
