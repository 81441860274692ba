"""Builds the tokenizer: a SentencePiece unigram model and the equivalent tokenizer.json.

The vocabulary comes from captions of the world (most of the weight), from the words of the Python standard library's own
documentation strings, and from the common Chinese characters (level 1 of GB 2312), so that ordinary words are not unknown.
`--check N` compares both files on N captions and on the held-out set.
"""
import argparse
import importlib
import io
import json
import os
import pkgutil
import re
import warnings
from collections import Counter

import numpy as np

import world

PAD, EOS, UNK = 0, 1, 2
MAX_TOKENS = 47  # longest caption in training, with </s>


def hanzi():
    """Returns the 3,755 characters of GB 2312 level 1."""
    raw = (bytes((0xA0 + row, 0xA0 + col)) for row in range(16, 56) for col in range(1, 95))
    return [c for c in (b.decode("gb2312", "ignore") for b in raw) if c]


def words():
    """Returns English words of the standard library's documentation strings, the commonest first."""
    count = Counter()
    warnings.simplefilter("ignore")
    for module in sorted(m.name for m in pkgutil.iter_modules() if not m.ispkg and m.name in __import__("sys").stdlib_module_names):
        if module in ("antigravity", "this") or module.startswith("_"):
            continue
        try:
            mod = importlib.import_module(module)
        except Exception:
            continue
        for item in [mod, *vars(mod).values()]:
            doc = getattr(item, "__doc__", None)
            count.update(re.findall(r"\b[a-z]{3,12}\b", doc if isinstance(doc, str) else ""))
    return [w for w, n in count.most_common(2600) if n >= 3]


def train(folder, vocab=6144, captions=40000):
    import sentencepiece as spm
    rng = np.random.default_rng(5)
    lines = [world.caption(world.sample_scene(rng), rng) for _ in range(captions)]
    english = words()
    lines += [" ".join(rng.choice(english, 8)) for _ in range(20000)]
    characters = hanzi()
    lines += ["".join(rng.permutation(characters)[:40]) for _ in range(1500)]
    extra = "，。、！？：；“”‘’（）…0123456789-'\",.!?:;()&%/" + "".join(chr(c) for c in range(65, 91))
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=vocab,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, byte_fallback=False,
        character_coverage=1.0, pad_id=PAD, eos_id=EOS, unk_id=UNK, bos_id=-1, max_sentencepiece_length=14,
        required_chars="".join(characters) + extra, num_threads=2, minloglevel=1, shuffle_input_sentence=False)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "spiece.model"), "wb") as f:
        f.write(model.getvalue())


def convert(folder):
    """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json from spiece.model."""
    import sentencepiece as spm
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    sp = spm.SentencePieceProcessor(model_file=os.path.join(folder, "spiece.model"))
    vocab = [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.get_piece_size())]
    t = Tokenizer(models.Unigram(vocab, unk_id=UNK, byte_fallback=False))
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=False)
    t.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=False)
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", EOS)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    t.add_special_tokens(list(special.values()))
    t.save(os.path.join(folder, "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, "clean_up_tokenization_spaces": False,
              "padding_side": "right", **special}
    for name, data in (("tokenizer_config.json", config), ("special_tokens_map.json", special)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(data, f, indent=1)
            f.write("\n")


def check(folder, n):
    import sentencepiece as spm
    from tokenizers import Tokenizer
    sp = spm.SentencePieceProcessor(model_file=os.path.join(folder, "spiece.model"))
    fast = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    rng = np.random.default_rng(99)
    texts = [world.caption(world.sample_scene(rng), rng) for _ in range(n)] + [i["caption"] for i in world.heldout_set(240)]
    texts += ["", "a", "Hello, world 42!", "你好，世界。", "two  spaces", "a red fish и 猫 ☃☃ x", "静态,细节模糊不清", "A cinematic shot of a cat on a skateboard"]
    longest, unknown = 0, 0
    for text in texts:
        a, b = sp.encode(text) + [EOS], fast.encode(text).ids
        assert a == b, (text, a, b)
        longest = max(longest, len(a))
        unknown += UNK in a
    print(f"{sp.get_piece_size()} pieces; {len(texts)} texts equal, longest {longest} tokens, {unknown} with unknown pieces")
    assert longest <= MAX_TOKENS


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", default="models/sprites/tokenizer")
    a.add_argument("--check", type=int, default=0)
    args = a.parse_args()
    if not args.check:
        train(args.out)
        convert(args.out)
    check(args.out, args.check or 2000)
