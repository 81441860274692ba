"""Records how PEFT applies patterns: makes patterns.json, by its own get_pattern_key, and adapters whose scales depend on patterns.

peft 0.21.2, diffusers 0.42.1, torch 2.11.0, Python 3.11. Seed 11.

    python make_peft.py            # writes beside itself; needs base.safetensors (make.py)

patterns.json has names and, for each list of keys, which of them each name gets (a letter for each name: the key's place, a
dot for none, ! where Python's `re` refuses the pattern). peft_regex/ and lokr_ranks/ are folders of PEFT's,
the keys of peft_regex are not in sorted order; diffusers_ranks.safetensors is written by diffusers from an adapter whose ranks and alphas differ,
with keys that begin with ^. NAME.merged.safetensors are the tensors that each changes."""
import json
import re
import shutil
import warnings

import torch
from peft import LoKrConfig, LoraConfig, PeftModel, get_peft_model
from peft.utils.other import get_pattern_key
from safetensors.torch import load_file

from make import HERE, TARGETS, make_model, randomise, save_changed

NAMES = ["blocks.0.attn1.to_q", "blocks.10.attn1.to_q", "attn1.to_q", "to_q", "blocks.0.attn2.to_q", "blocks.0.attn1.to_k",
         "blocks.0.attn1.to_out.0", "blocks.0.ffn.net.2", "blocks.0.ffn.net.0.proj", "blocks.1.attn1_to_q", "myattn1.to_q",
         "a.b", "x.é.to_q", "x.É", "aaaa", "x.[to_q", "x.{1}", "x.to_q_lora", "x.TO_Q", "proj_out"]
# The last lists have several keys: the first that fits counts.
KEYS = [[k] for k in r"""attn1.to_q
^blocks.0.attn1.to_q
^blocks\.0\.attn1\.to_q$
^to_q
.*\.attn1\.to_q$
.*\.attn1\.to_q
blocks\.[0-5]\.attn1\.to_q
blocks\.\d+\.attn\d\.to_q
attn1\.(to_q|to_k)
attn1\.(?:to_q|to_k)
attn1.to_q|
|attn1.to_q
attn1.to_q|to_k
^attn1.to_q|^blocks.0.attn1.to_k
attn1.to_q)|(x
(?:^|.*\.)attn1\.to_q
.*attn[12]\.to_[qkv]
.*\.(to_q|to_k|to_v|to_out\.0)
ffn\.net\.[02](\.proj)?
blocks\.(0|1[0-9])\..*
blocks\.[^.]+\.attn1\.to_q
net.*
a{,3}ttn1.to_q
a{1}ttn1.to_q
a{1
at+n1.to_q
at++n1.to_q
(?>at+)n1.to_q
(?>at+)tn1.to_q
a{1,2}+ttn1.to_q
at*?n1.to_q
at??tn1.to_q
to_q\Z
\Ablocks.0.attn1.to_q
\Ato_q
(?i:TO_Q)
(?-i:TO_Q)
(?s:.)to_q
(?m:^)to_q
(?P<x>t)to_(?P=x)
(?P<x>t)(?P=x)n1.to_q
a(t)\2n1.to_q
a(t)\3n1.to_q
\w+.to_q
\W\w+
\S+
\D\d
\bto_q\b
\Bto_q
\x61ttn1.to_q
\u0061ttn1.to_q
\141ttn1.to_q
\-to_q
attn1\.to\_q
(?<=attn1\.)to_q
(?<!attn2\.)to_q
(?=attn)attn1.to_q
(?!attn2)attn\d.to_q
to_[^k]
to_[^\W]
to_[]q]
to_[q-]
[a-z&&[^b]]+1.to_q
[[]to_q
[a[t]+n1.to_q
[à-ü].to_q
[^à-ü].to_q
é.to_q
(?i:É)
(?i:é)
\{1}
{1}
a+
(a|aa)+
((a*)*)*
to_q$$
to_q$
to_q.
to_.
.
..
.*
.+

a(?(1)t|x)tn1.to_q
(?#comment)to_q
(?x: to_q )
#to_q
 to_q
(?i)TO_Q
(?s).*to_q
(?-i)to_q
*.attn1
+attn1
a**b
(attn1.to_q
attn1.to_q)
[attn
\
\h+
\p{L}+
\Qto_q\E
\k<x>
\g<1>
[z-a]
a{2,1}
(?P<x>a)(?P<x>b)
(?P=y)
(?R)
(?'n'a)
[[:alpha:]]+.to_q
\N{LATIN SMALL LETTER A}ttn1.to_q
(?=a)*attn1.to_q""".split("\n")] + [
    ["to_q", "attn1.to_q"], ["attn1.to_q", "to_q"], ["b", "a.b"], [".*", "to_q"], ["^attn1.to_q", ".*to_q", "to_k", "to_out.0"],
    ["x", "y", "proj_out"], ["to_k", ".*\\.net\\..*", "blocks\\.0\\..*"]]


def fits(keys):
    out = ""
    for name in NAMES:
        try:
            key = get_pattern_key(keys, name)
        except re.error:
            return "!" * len(NAMES)
        out += str(keys.index(key)) if key in keys else "."
    return out


def write_patterns():
    warnings.simplefilter("ignore")  # Python warns of sets within sets
    lists = [{"keys": keys, "fits": fits(keys)} for keys in KEYS]
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in lists)
    (HERE / "patterns.json").write_text(f'{{"names": {json.dumps(NAMES, ensure_ascii=False)},\n"lists": [\n{lines}]}}\n')


def folder_of(name, base, config, order=None):
    """Writes a PEFT folder, and the weights that PEFT merges after reading it again."""
    model = get_peft_model(make_model(base), config)
    randomise(model)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    if order:
        path = folder / "adapter_config.json"
        saved = json.loads(path.read_text())
        saved.update(order)
        path.write_text(json.dumps(saved, indent=2))
    again = PeftModel.from_pretrained(make_model(base), folder)
    save_changed(name, base, again.merge_and_unload().state_dict())


def write_diffusers(base):
    model = make_model(base)
    state, alphas = {}, {}
    for i, target in enumerate(TARGETS):
        rows, columns = base[f"blocks.0.{target}.weight"].shape
        rank = 1 + i % 3
        state[f"transformer.blocks.0.{target}.lora_A.weight"] = torch.randn(rank, columns) * 0.3
        state[f"transformer.blocks.0.{target}.lora_B.weight"] = torch.randn(rows, rank) * 0.3
    model.load_lora_adapter(state, adapter_name="a", prefix="transformer")
    config = model.peft_config["a"]
    config.lora_alpha = 2.0 * config.r
    config.alpha_pattern = {k: 5 for k in config.rank_pattern}
    model.save_lora_adapter(HERE, adapter_name="a", weight_name="diffusers_ranks.safetensors")
    assert any(k.startswith("^") for k in config.rank_pattern)
    again = make_model(base)
    again.load_lora_adapter(HERE, weight_name="diffusers_ranks.safetensors", prefix=None, adapter_name="b")
    again.fuse_lora()
    save_changed("diffusers_ranks", base, {k.replace(".base_layer", ""): v for k, v in again.state_dict().items() if "lora_" not in k})


def main():
    torch.set_num_threads(1)
    torch.manual_seed(11)
    base = load_file(HERE / "base.safetensors")
    write_patterns()
    alphas = {"to_.*": 3, r".*\.attn1\.to_q$": 32, r"attn2\.(add_k_proj|add_v_proj)": 16, r"^blocks\.0\.ffn\.net\.[0-1]\.proj": 1}
    order = {"alpha_pattern": {k: alphas[k] for k in (r".*\.attn1\.to_q$", "to_.*", r"attn2\.(add_k_proj|add_v_proj)", r"^blocks\.0\.ffn\.net\.[0-1]\.proj")}}
    folder_of("peft_regex", base, LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS, alpha_pattern=alphas,
                                             rank_pattern={r".*\.ffn\..*": 2}), order)
    folder_of("lokr_ranks", base, LoKrConfig(r=64, alpha=16, target_modules=TARGETS, rank_pattern={"to_k": 80, ".*proj": 100},
                                             alpha_pattern={r"attn1\.to_[qv]": 48}))
    write_diffusers(base)


if __name__ == "__main__":
    main()
