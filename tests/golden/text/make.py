#!/usr/bin/env python3
"""Makes the golden files of tests/unit/text. Nothing here comes from our own code.

    python tests/golden/text/make.py            # writes beside itself; takes about 20 s

Written with Python 3.11.7 (Unicode 14), ftfy 6.3.1, tokenizers 0.23.3, sentencepiece 0.2.3; seed 20240611.

clean.json      [[text, cleaned], ...]: diffusers' prompt_clean for Wan (ftfy, html.unescape twice, strip, \\s+ to
                one space, strip), with ftfy's mojibake repair switched off (TextFixerConfig(fix_encoding=False));
                and mojibake.json: [[text, true when ftfy's repair would decode it as UTF-8], ...]
small/          a unigram model trained here: spiece.model, and tokenizer.json as the tokenizers library writes it;
                bytes.model: a smaller one with byte pieces and byte fallback
tokenizer.json's golden ids: tokens.json {"variants": [{name, sections, cases: [[text, ids], ...]}]}, where sections
                replace those of small/tokenizer.json; {"models": [{name, file, cases}]} with whole small files;
                {"padded": [[text, max_length, ids, mask], ...]}; {"spiece": [[text, ids], ...]} from sentencepiece
                itself, unknown runs fused.
spiece.json     [{name, model (base64), cases: [[text, ids], ...]}, ...]: spiece.model files that differ in what they do
                to a text, ids from sentencepiece itself; runs of unknown and byte pieces are one unknown id.
"""
import base64
import html
import io
import json
import pathlib
import random
import re
import tempfile

import ftfy
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20240611


def prompt_clean(text):
    text = ftfy.fix_text(text, ftfy.TextFixerConfig(fix_encoding=False, explain=False))
    text = html.unescape(html.unescape(text)).strip()
    return re.sub(r"\s+", " ", text).strip()


# ---------------------------------------------------------------------------------------------------- sentences
ENGLISH = ("a red fox jumps over the lazy dog while two blue birds fly slowly above a green hill at night cat robot "
           "cinematic shot close-up 4K of an old man's hat, snow; rain! sunset? day (wide) dragon walking runs glowing "
           "neon city street").split()
CHINESE = "一只红色的狐狸跳过懒狗夜晚城市街道霓虹灯下雨猫机器人慢慢走路蓝鸟飞在绿山上方日落雪，。、！：；？（）“”《》"
JAPANESE = "猫が窓辺に座っている夜の東京カタカナ、ガギグパピプ。ー「」"
RUSSIAN = "Привет, мир! рыжая лиса прыгает через ленивую собаку ночью ёлка й".split()
ARABIC = "مرحبا بالعالم ثعلب أحمر يقفز فوق كلب كسول".split()
KOREAN = "빨간 여우가 게으른 개를 뛰어넘는다".split()
HINDI = "लाल लोमड़ी आलसी कुत्ते के ऊपर कूदती है".split()
EMOJI = ["🦊", "👩‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👍🏽", "❤️", "🇯🇵", "☃", "✨", "1️⃣"]
COMBINING = ["e\u0301", "a\u0308\u0323", "A\u030a", "o\u0328\u0304", "\u1112\u1161\u11ab", "n\u0303", "\u0915\u093c",
             "q\u0307\u0323", "\u0344", "\u2126", "\u212b", "\u1e9b\u0323", "ﬁ", "ﬂ", "ﬃ", "ﬄ", "ﬅ", "ﬆ", "ŉ", "ǆ", "Ǉ",
             "ĳ", "Ĳ", "ǳ", "ﬀ", "æ", "œ", "Ǆ", "ǅ", "ǈ", "ǌ", "ǲ"]
WIDE = ["Ｆｏｘ", "，", "！", "：", "（", "）", "ｶﾞｷﾞ", "ﾊﾟ", "ﾡ", "ￂ", "￠", "￦", "￣", "\u3000", "１２３", "～", "＂", "＇",
        "￨", "￭", "｡", "､", "･", "ｰ"]
QUOTES = ["“", "”", "‘", "’", "‚", "„", "‛", "‟", "«", "»", "ʼ", "`", "´", "'", '"', "′", "″", "「", "」"]
CONTROLS = [chr(c) for c in list(range(0x20)) + [0x7F]] + [chr(c) for c in range(0x80, 0xA0)] + [
    "\ufeff", "\u206a", "\u206f", "\ufff9", "\ufffb", "\ufffc", "\ufffd", "\u200b", "\u200d", "\u200e", "\u202a",
    "\u2060", "\u00ad", "\x1b[31m", "\x1b[0m", "\x1b[1;2;3A", "\x1b[", "\x1b[\u0663m", "\x1b]0;t\x07", "\x1b[3;",
    "\U000e0041", "\U0001d173", "\ue000", "\uffff", "\ufdd0", "\U0010ffff"]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0",
          "\u1680", "\u2000", "\u2003", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
          "\u180e", "\n\n", " \n "]
ENTITIES = ["&amp;", "&lt;", "&gt;", "&quot;", "&nbsp;", "&amp;amp;", "&amp;lt;b&amp;gt;", "&#39;", "&#x27;", "&hellip;",
            "&eacute;", "&EACUTE;", "&Eacute;", "&eACUTE;", "&SZLIG;", "&frac12;", "&NotEqualTilde;", "&amp", "&copy",
            "&notit;", "&notin;", "&not", "&para", "&parallel;", "&#0;", "&#1;", "&#x80;", "&#150;", "&#133;",
            "&#xD800;", "&#x110000;", "&#99999999999;", "&#59;", "&#38;lt;", "&#12a;", "&#xZZ;", "&#;", "&;", "&", "& ",
            "&&amp;", "&#x1F98A;", "&#X1f98a", "&#129418", "&ThickSpace;", "&fjlig;", "&ffilig;", "&NBSP;", "&HELLIP;",
            "&LDQUO;", "&ldquo;", "&acE;", "&ngE;", "&bogus;", "&bogusbogusbogusbogusbogusbogusbogus;", "&ampamp;",
            "&CounterClockwiseContourIntegral;", "&amp;#39;", "&amp;quot;", "&#xFB01;", "&#x301;", "e&#x301;", "&#10;",
            "&#13;", "&#x2028;", "&Tab;", "&NewLine;", "&#65279;", "&copy2024", "&times4", "&lt", "&ltimes;", "&#xfdd0;",
            "&#8203;", "&#xA0;", "&zwj;", "&shy;", "&#27;[31m", "<b>", "<", "1 < 2", "</p>", "&LT;", "&GT", "&猫;"]


def sentence(rng, words=None):
    kind = rng.randrange(7)
    if words is None and kind == 0:
        return "".join(rng.choice(CHINESE) for _ in range(rng.randint(2, 14)))
    if words is None and kind == 1:
        return "".join(rng.choice(JAPANESE) for _ in range(rng.randint(2, 12)))
    pool = words or {2: RUSSIAN, 3: ARABIC, 4: KOREAN, 5: HINDI}.get(kind, ENGLISH)
    return " ".join(rng.choice(pool) for _ in range(rng.randint(1, 9)))


def mixed(rng, pools, pieces):
    out = []
    for _ in range(pieces):
        out.append(sentence(rng) if rng.random() < 0.4 else rng.choice(rng.choice(pools)))
        if rng.random() < 0.5:
            out.append(rng.choice(SPACES) if rng.random() < 0.3 else " ")
    return "".join(out)


def clean_texts(rng):
    texts = ["", " ", "\n", "\ufeff", "&nbsp;", "a", "a cat running", "&lt;b&gt; bold", "<b>&amp;</b>",
             "&amp;\n<b>\n&amp;eacute; &EACUTE;", "&EACUTE; line\n&EACUTE; <\n&EACUTE;", "色调，过曝", "它’s “ok”…",
             "\x1b[31mred\x1b[0m fox", "a\u2028b\u2029c\x85d\r\ne\rf", "e\u0301\u0301", "&#27;[31mred", "x" * 3000,
             "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，JPEG压缩残留，"
             "丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的"
             "画面，杂乱的背景，三条腿，背景人很多，倒着走"]
    for group in (EMOJI, COMBINING, WIDE, QUOTES, CONTROLS, SPACES, ENTITIES):
        for item in group:
            texts.append(f"a{item}b {item}")
    pools = [EMOJI, COMBINING, WIDE, QUOTES, CONTROLS, SPACES, ENTITIES]
    for _ in range(260):
        texts.append(mixed(rng, pools, rng.randint(1, 9)))
    for _ in range(60):
        texts.append(sentence(rng))
    for _ in range(60):  # any character of the planes in use
        texts.append("".join(chr(rng.choice([rng.randint(1, 0x2FF), rng.randint(0x300, 0xD7FF),
                                             rng.randint(0xE000, 0xFFFF), rng.randint(0x1F000, 0x1FAFF)]))
                             for _ in range(12)))
    return texts


def mojibake_texts(rng):
    sources = ["é", "naïve café", "“quoted”", "你好，世界", "Привет мир", "日本語の猫", "it’s", "10 €", "señor", "🦊 fox",
               "über", "مرحبا", "…", "ñandú", "Ελλάδα", "한국어"]
    bad = [s.encode().decode(c) for s in sources for c in ("sloppy-windows-1252", "latin-1")]
    good = sources + ["CAFÉ», dit-il", "Ã", "10 Â", "fünf £5", "déjà vu ·", "naïve", "ÄÖÜ äöü ß", "«Ñandú»", "50 °C ± 2",
                      "São João", "Œuvre – œuf", "Ø 5 µm", "Île-de-France", "Þórr", "ÀÉÎÕÜ", "â ê î", "price: 5€"]
    rows = []
    for text in bad + good + [sentence(rng) for _ in range(60)]:
        rows.append([text, text in bad and ftfy.fix_encoding(text) != text])
    return rows


# ---------------------------------------------------------------------------------------------------- tokenizers
def corpus(rng):
    shapes, colours = "circle square triangle star fox cat bird robot fish".split(), "red blue green yellow black".split()
    moves = "moves left,jumps up,spins slowly,grows,bounces off the wall,flies over a hill,walks at night".split(",")
    hs, cs, ms = "圆形 方块 三角形 星星 狐狸 猫 小鸟 机器人 鱼".split(), "红色 蓝色 绿色 黄色 黑色".split(), \
        "向左移动 向上跳 慢慢旋转 变大 从墙上弹开 飞过山丘 在夜里行走".split()
    # Invented words join the captions, so that the vocabulary can be filled.
    syllables = "ba ko ri tan sel mo vi dra lun fe gor pin sha tre wo nia cam bel ost ur".split()
    words = ["".join(rng.choice(syllables) for _ in range(rng.randint(2, 4))) for _ in range(1500)]
    han = [chr(c) for c in range(0x4E00, 0x4E00 + 1200, 7)]
    pairs = [rng.choice(han) + rng.choice(han) for _ in range(500)]
    for _ in range(3000):
        yield f"a {rng.choice(colours)} {rng.choice(shapes)} {rng.choice(moves)}, {rng.choice(['day', 'night'])}."
        yield f"一只{rng.choice(cs)}的{rng.choice(hs)}{rng.choice(ms)}，{rng.choice(['白天', '夜晚'])}。"
        yield sentence(rng, ENGLISH)
        yield " ".join(words[int(len(words) * rng.random() ** 2)] for _ in range(8))
        yield "".join(pairs[int(len(pairs) * rng.random() ** 2)] for _ in range(6))


def train(rng, vocab_size, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=corpus(rng), model_writer=out, vocab_size=vocab_size, model_type="unigram",
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=1.0, num_threads=1, minloglevel=2,
        **dict(dict(normalization_rule_name="identity", remove_extra_whitespaces=False), **options))
    return out.getvalue()


RULES = {"Ａ": "A", "ａ": "a", "ｂ": "b", "，": ",", "！": "!", "\u3000": " ", "ﬁ": "fi", "™": "TM", "…": "...", "①": "1",
         "ｶ": "カ", "ﾞ": "\u3099", "ｶﾞ": "ガ", "e\u0301": "é", "\u00a0": " ", "\u200b": "", "\t": " ", "½": "1/2",
         "\u212b": "\u00c5", "㎏": "kg", "\u0301": "", "ab\u0301": "X"}


def charsmap():
    """Returns a small precompiled map, which sentencepiece compiles from these rules."""
    with tempfile.TemporaryDirectory() as folder:
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c d e f g"] * 20), model_writer=out, vocab_size=12, model_type="unigram",
            normalization_rule_tsv=rules_file(folder), hard_vocab_limit=False, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


def added(content, id, **flags):
    token = dict(id=id, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    token.update(flags)
    return token


def template():
    return {"type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}}


def metaspace(scheme="always", split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


SPECIALS = ["<pad>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_1>", "Fox", "MASK", "<x>"]


def token_texts(rng, count):
    texts = ["", " ", "  ", "a", " a", "a ", "  a  b  ", "a red fox", "a  red   fox", "▁", "▁a", "a▁b", " ▁ ", "hello</s>",
             "</s>", "<unk>", "a<unk>b", "🦊🦊 fox 🦊", "🦊猫🦊", "xyz¤", "\n", "a\nb", "\ta", "a\u3000b", "一只红色的狐狸",
             "<extra_id_0> cat <extra_id_1>", " <extra_id_0>  <extra_id_0> ", "<pad><pad>", "<pad", "ＡａｂＡ", "e\u0301",
             "ﬁne", "MASKed", "a MASK b", "MASK", "(MASK)", "a  MASK  b", "Fox", "FOX", "fox Foxes", "ｶﾞ ｶ ﾞ",
             "ab\u0301", "\u200bab", "İSTANBUL", "\x00", "a\x00b", "<0x0A>", "日本\u3000", "\u00a0a\u00a0", "…wait…"]
    unknown = ["🦊", "¤", "龍", "Ж", "ß", "\u0301", "\n", "\t", "\u00a0", "\u3000", "\u200b", "ﬁ", "Ａ", "ａ", "，", "！",
               "ｶﾞ", "Å", "É", "e\u0301", "㎏", "½", "①", "ａｂ", "ab\u0301", "İ", "\x01", "\x7f", "\u2581", "\ufeff"]
    for _ in range(count):
        out = []
        for _ in range(rng.randint(1, 8)):
            roll = rng.random()
            out.append(sentence(rng, ENGLISH) if roll < 0.3 else
                       "".join(rng.choice(CHINESE) for _ in range(rng.randint(1, 6))) if roll < 0.45 else
                       rng.choice(SPECIALS) if roll < 0.55 else rng.choice(unknown) if roll < 0.75 else
                       " " * rng.randint(1, 4) if roll < 0.9 else rng.choice("abcdefg") * rng.randint(1, 5))
            if rng.random() < 0.3:
                out.append(" ")
        texts.append("".join(out))
    return texts


def base_file(model_bytes):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model_bytes)
    vocab = [[p.piece, p.score] for p in proto.pieces] + [["<extra_id_1>", 0.0], ["<extra_id_0>", 0.0]]
    size = len(vocab)
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added("<pad>", 0), added("</s>", 1), added("<unk>", 2), added("<extra_id_1>", size - 2),
                             added("<extra_id_0>", size - 1)],
            "normalizer": None, "pre_tokenizer": metaspace(), "post_processor": template(),
            "decoder": metaspace(), "model": {"type": "Unigram", "unk_id": 2, "vocab": vocab, "byte_fallback": False}}


def variants(base):
    seq = lambda *steps: {"type": "Sequence", "normalizers": list(steps)}
    strip = lambda left, right: {"type": "Strip", "strip_left": left, "strip_right": right}
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
    small = [added("<pad>", 0), added("</s>", 1), added("<unk>", 2)]
    n = len(base["model"]["vocab"])
    word = small + [added("MASK", n, single_word=True, lstrip=True, rstrip=True, special=True),
                    added("<x>", n + 1, lstrip=True), added("Fox", n + 2, normalized=True, special=False)]
    yield "plain", {}
    yield "no pre-tokenizer", {"pre_tokenizer": None}
    yield "unsplit", {"pre_tokenizer": metaspace(split=False)}
    yield "first", {"pre_tokenizer": metaspace("first")}
    yield "first unsplit", {"pre_tokenizer": metaspace("first", False)}
    yield "never", {"pre_tokenizer": metaspace("never")}
    yield "old metaspace", {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}}
    yield "white space split", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"}, metaspace()]}}
    yield "white space split, first", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"}, metaspace("first")]}}
    yield "t5 of today", {"normalizer": seq(strip(False, True), spaces)}
    yield "t5 of old", {"normalizer": seq({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})}
    yield "regex", {"normalizer": seq({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "},
                                      {"type": "Replace", "pattern": {"Regex": "[a-c\\n]+x?"}, "content": "fox"})}
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield form, {"normalizer": {"type": form}}
    yield "llama style", {"pre_tokenizer": None, "normalizer": seq(
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"})}
    yield "nmt, nfkc, lower, strip", {"normalizer": seq({"type": "Nmt"}, {"type": "NFKC"}, {"type": "Lowercase"},
                                                       strip(True, True))}
    yield "strip accents", {"normalizer": seq({"type": "NFD"}, {"type": "StripAccents"})}
    yield "strip left, first", {"normalizer": strip(True, False), "pre_tokenizer": metaspace("first")}
    yield "nmt, first", {"normalizer": {"type": "Nmt"}, "pre_tokenizer": metaspace("first")}
    yield "precompiled", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap()}}
    yield "added tokens", {"added_tokens": word}
    yield "added tokens, lower", {"added_tokens": word, "normalizer": {"type": "Lowercase"}}
    yield "added tokens, first", {"added_tokens": word, "pre_tokenizer": metaspace("first")}
    yield "no post-processor", {"post_processor": None}


def tie_models():
    """Returns hand-made vocabularies: equal sums, duplicates, unknowns inside pieces, no white-space handling."""
    def file(vocab, unk_id=0, **sections):
        return dict({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                     "pre_tokenizer": None, "post_processor": None, "decoder": None,
                     "model": {"type": "Unigram", "unk_id": unk_id, "vocab": vocab, "byte_fallback": False}}, **sections)
    ends = [["<unk>", 0], ["<pad>", 0.0], ["</s>", 0.0]]
    yield "ties", file(ends + [[p, -float(len(p))] for p in
                               ["a", "b", "c", "ab", "bc", "abc", "aa", "aaa", "ca", "cab", "bca"]])
    yield "tenths", file(ends + [[p, -0.1 * len(p)] for p in ["a", "b", "c", "ab", "bc", "abc", "aa", "aab", "cc"]])
    yield "duplicates", file(ends + [["a", -1.0], ["b", -2.0], ["a", -5.0], ["ab", -6.5], ["ab", -20.0], ["c", -1e-3]])
    yield "unknown in pieces", file(ends + [["a", -1.0], ["xa", -30.0], ["ax", -3.0], ["xx", -40.0], ["b", -2.5]])
    yield "positive scores", file(ends + [["a", 3.5], ["b", 1.0], ["ab", 4.4999999999999999], ["ba", 1e2], ["c", 12e-1]])
    yield "odd numbers", file(ends + [["a", -3.29697179794311523437], ["b", -12345678901234567890123e-21],
                                      ["ab", -15.6426506979456920], ["c", -0.30000000000000004], ["abc", -15.9426]])


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def rules_file(folder):
    rules = pathlib.Path(folder) / "rules.tsv"
    code = lambda s: " ".join("%X" % ord(c) for c in s)
    rules.write_text("".join(f"{code(k)}\t{code(v)}\n" for k, v in sorted(RULES.items())))
    return str(rules)


def spiece_kinds(rng):
    """Returns (name, bytes) of small spiece.model files that normalise a text differently."""
    sentences = [sentence(rng, ENGLISH) for _ in range(400)] + [
        "".join(rng.choice(CHINESE) for _ in range(8)) for _ in range(100)]
    with tempfile.TemporaryDirectory() as folder:
        rules = dict(normalization_rule_tsv=rules_file(folder))
        plain = dict(normalization_rule_name="identity")
        kinds = {
            "rules": rules,
            "rules, byte pieces": dict(rules, byte_fallback=True, vocab_size=500),
            "rules, spaces kept, no prefix": dict(rules, remove_extra_whitespaces=False, add_dummy_prefix=False),
            "mark behind": dict(rules, treat_whitespace_as_suffix=True),
            "mark behind, spaces kept": dict(plain, treat_whitespace_as_suffix=True, remove_extra_whitespaces=False),
            "user-defined pieces": dict(rules, user_defined_symbols=["fox", "<x>", "red fox", " ", "ａｂ", "lazy"]),
            "user-defined pieces, no rules": dict(plain, user_defined_symbols=["re", "ed", "▁a", "🦊"],
                                                  remove_extra_whitespaces=False),
            "other names": dict(plain, pad_piece="[PAD]", eos_piece="[END]", unk_piece="[?]"),
        }
        for name, own in kinds.items():
            out = io.BytesIO()
            settings = dict(vocab_size=200, hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
                            character_coverage=0.999, num_threads=1, minloglevel=2)
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=out,
                                                     model_type="unigram", **dict(settings, **own))
            yield name, out.getvalue()


def spiece_texts(rng, count):
    # libsentencepiece reads a zero byte as a free place of its character map.
    return [t for t in token_texts(rng, count) if "\0" not in t] + ["aaaaaa aaa", "a red fox, redred fox", "<x><x >", " <x> fox "]


def spiece_golden(rng):
    out = []
    for name, model in spiece_kinds(rng):
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        cases = [[t, fused(processor, t)] for t in spiece_texts(rng, 40)]
        out.append({"name": name, "model": base64.b64encode(model).decode(), "cases": cases})
    return out


def fused(processor, text):
    """Returns the library's ids, with each run of unknown or byte pieces replaced by one unknown id."""
    out = []
    for id in processor.encode(text):
        id = processor.unk_id() if processor.is_byte(id) else id
        if not (id == processor.unk_id() and out and out[-1] == id):
            out.append(id)
    return out


def write(name, value):
    # Each case has its own line, so that small differences stay readable.
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("],[\"", "],\n[\"")
    (HERE / name).write_text(text + "\n")
    print(name, len(text))


def main():
    rng = random.Random(SEED)
    texts = clean_texts(rng)
    assert len(texts) >= 500, len(texts)
    write("clean.json", [[t, prompt_clean(t)] for t in texts])
    write("mojibake.json", mojibake_texts(rng))

    model = train(random.Random(SEED + 1), 1500)
    (HERE / "small").mkdir(exist_ok=True)
    (HERE / "small" / "spiece.model").write_bytes(model)
    (HERE / "small" / "bytes.model").write_bytes(train(random.Random(SEED + 2), 700, byte_fallback=True))
    base = base_file(model)
    whole = Tokenizer.from_str(json.dumps(base))
    (HERE / "small" / "tokenizer.json").write_text(whole.to_str())

    out = {"variants": [], "models": [], "padded": [], "spiece": []}
    for name, sections in variants(base):
        tokenizer = Tokenizer.from_str(json.dumps(dict(base, **sections)))
        cases = token_texts(rng, 300 if name == "plain" else 90)
        out["variants"].append({"name": name, "sections": sections, "cases": [[t, ids_of(tokenizer, t)] for t in cases]})
    for name, file in tie_models():
        tokenizer = Tokenizer.from_str(json.dumps(file))
        cases = ["".join(rng.choice("aabbccx") for _ in range(rng.randint(1, 14))) for _ in range(60)]
        out["models"].append({"name": name, "file": json.dumps(file), "cases": [[t, ids_of(tokenizer, t)] for t in cases]})
    for length in (512, 8, 2, 1):
        whole.enable_truncation(length)
        whole.enable_padding(length=length, pad_id=0, pad_token="<pad>")
        for text in ["", "a", "a red fox", "hello</s>", "🦊", "一只红色的狐狸" * 120, "red fox " * 400]:
            if length > 1:
                e = whole.encode(text)
                out["padded"].append([text, length, e.ids, e.attention_mask])
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    plain = [t for t in token_texts(rng, 300) if not any(s in t for s in ["<", "\x00"])]
    out["spiece"] = [[t, fused(processor, t)] for t in plain]
    write("tokens.json", out)
    write("spiece.json", spiece_golden(random.Random(SEED + 3)))


if __name__ == "__main__":
    main()
