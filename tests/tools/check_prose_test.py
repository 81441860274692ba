#!/usr/bin/env python3
"""Tests tools/check_prose on small trees: it refuses the sentences of REFUSED, each by the pattern that is named, and passes those of PASSED. All are
from comments and pages of this project, as they were when the list began.

    check_prose_test.py PATH_OF_CHECK_PROSE"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

REFUSED = [
    ("what-fragment", "What an embedding's bits depend on."),
    ("what-fragment", "What a tensor core's product takes at once; fewer would be padded, and cost more quality than they save time."),
    ("what-fragment", "What the loading thread hands to the warpgroups."),
    ("what-fragment", "What the model makes of the inputs in float64, and its error in float32."),
    ("what-fragment", "What a request that is made block by block may ask for."),
    ("what-fragment", "What a page says of itself, which is then ended."),
    ("what-fragment", "What torch._scaled_mm computes by rows, but for the order of its sums."),
    ("what-fragment", "What every tokenizer asks of a text."),
    ("what-fragment", "What the level turns on where the request does not say."),
    ("of-fragment", "Of a thread's two rows."),
    ("of-fragment", "Of each query of the tile: lse for the first warp, delta for the second."),
    ("of-fragment", "Of a pattern or a folder."),
    ("of-fragment", "Of a talking photo's windows: those before it have been handed out whole."),
    ("of-fragment", "Of n frames; tiles are added in their order, whoever made them."),
    ("of-fragment", "Whether a part may stay. Of the reference's errors by precision the one to compare with."),
    ("as-fragment", "As memcpy from anywhere. What lies in a mapped file is read instead."),
    ("as-fragment", "As in rmsnorm.h and layernorm_modulate.h."),
    ("as-fragment", "As chrome_trace (report/profile_report.h) begins it."),
    ("whose-fragment", "Whose tokenizer: the one that was named, that of a text encoder that was named, the folder's."),
    ("who-for-whoever", "Who computes which unit of flash_sm90.cuh where keys are listed."),
    ("who-for-whoever", "The file appears whole or not at all. Who keeps what made() says of it beside it finds out when it is another one's."),
    ("prep-who", "Shapes and dtypes were checked by who makes one (quantized_source.cpp)."),
    ("prep-who", "Weights of convolutions, packed for who multiplies them on this CPU."),
    ("prep-who", "idle sessions then wait for who needs their memory"),
    ("one-a-row", "A weight in 8 bits with a scale a row; each product rounds its x in the same way."),
    ("one-a-row", "Scores are finite, one a piece; an empty piece is never found."),
    ("one-a-row", "equal shares, one a cluster, whose unnormalised results flash90_merge puts together."),
    ("bare-nouns", "Bounds-check every offset, cap every count; errors name file, offset and reason."),
    ("bare-nouns", "Anything else is refused with file, line and byte, for a text that is read in the wrong encoding is another text."),
    ("such-as-verb", "Null for small weights, and for such as are not plain values in the file."),
    ("such-alone", "The fifth bits of all are a word before them, where there are such."),
    ("such-alone", "A file at the name of a window that does not exist; empty: there is no such."),
    ("such-a-one", "memory_test.cpp shows that such a one is found."),
    ("in-turns", "Two buffers by turns; the first layer's is float32, as is what the last one makes."),
    ("in-turns", "This kernel adds to sums in memory, the blocks of a head in turns."),
    ("also-where", "A strength moves along the straight line, also where the change depends on the weight."),
    ("another-than", "The system's list of the CPU's abilities is another source than the one in use."),
    ("another-than", "Where y's unit stride is another axis than x's, tiles of 32 x 32 turn in shared memory."),
    ("is-no", "Throws not_found for what is no such VAE."),
    ("is-no", "A warning, or a line for people that is no event: where settings went, which device is taken."),
    ("is-none", "The tensor behind a view; false where it is none that an op can take."),
    ("given-none", "job_store.cpp picks the output of a run that was given none."),
    ("others-not", "A head turns by frame and pair, those past the turning ones not at all."),
    ("behind-the-end", "A block of a list is kTilesEach tiles of keys, the last of which may lie behind the end."),
    ("gone-on", "A window that was gone on with after its last step has none of its own."),
    ("which-is-said", "A file system without locks (some network mounts) locks nothing, which is said."),
    ("told", "That code computes in float32; its own error is told beside it, by a restatement in float64."),
    ("with-a-word", "Several ranks are refused with a word."),
    ("of-whose", "The defaults are those of the base model, of whose hidden states InfiniteTalk makes its audio tokens."),
    ("as-there", "With a picture every window begins with it, as there."),
    ("of-before", "These are forwards of before flash_sm90 was there."),
    ("makes-of", "Values: the op runner's cases, and what PyTorch makes of the same (golden_ops_test.cpp)."),
    ("so-many", "query i sees keys up to its own place, with a window only the last so many of these places."),
    ("dear", "Files that Highway compiles for each instruction set are dear by their headers."),
    ("old-word", "Two rows are thrice as large a share there as at 14B."),
    ("to-be-had", "no thread is to be had: next() draws"),
    ("has-it-so", "It is contiguous, or its channels last where x has them so and in no other way."),
    ("bare-not", "Asks for huge pages. TACHY_HUGE_PAGES=0: not."),
    ("which-is-said", "Before: the module is left, and it is said. After: the user's code runs, in that module alone."),
    ("is-no", "Throws not_found if this is no Wan transformer, and unsupported for relatives."),
    ("so-many", "The place for the latents of a block of so many frames, [z, frames, h, w]: passes need not copy them."),
    ("so-many", "The steps after so many steps."),
    ("bit-by-bit", "Resampled sound equals librosa's own output, bit by bit."),
    ("searched-in", "Tokens with normalized=false are searched in the raw text, the others in the normalized pieces."),
    ("each-two", "The first one, and one between each two steps."),
    ("participle-first", "Counted are the heap's bytes in use, according to malloc itself."),
    ("verb-that", "Shows where the time of a video goes that is made block by block."),
    ("which-alone", "which that call has changed for all models"),
    ("makes-of", "Two clips, and what diffusers makes\nof them, are compared frame by frame."),  # the phrase continues after the end of a line
]
PASSED = [
    "What cannot be asked for is not compiled: a LayerNorm of the usual parts has no weight, and two roundings are of RMSNorm.",
    "What depends on several fields, on the model or on the machine is resolve()'s to check.",
    "What earlier frames were told is kept in rings of their own, without sinks.",
    "What float32 costs is time where the CPU has AMX.",
    "What librosa cannot read without a program beside it (m4a, mp4, webm) is decoded by PyAV and resampled by librosa.",
    "What lies outside becomes zero.",
    "What worlds hold is neither free nor waited for.",
    "What a processor gets beyond what the rules know goes to the module itself, which warns of it or uses it.",
    "What stays in the buffer until now fails silently otherwise.",
    "What a library clears while a graph is recorded becomes a kernel that writes the same bytes and no others.",
    "What the plan chose is what runs.",
    "What planning counts must be what loading takes: all memory from the store.",
    "What the step cache learned of one expert says nothing about the other: each computes its first two steps.",
    "What is not kernels, models or runtime comes from well-kept libraries.",
    "What a frame of one colour deviates by is rounding.",
    "What the other 15 % wait for is not known.",
    "Of two experts only one is in memory at a time, unless several videos are made and both fit.",
    "Of an animation the first picture is read, and a warning says so.",
    "Of 67 checks 0 failed.",
    "Of smaller values f16 cannot hold 127 / largest; what they add to a score is next to nothing.",
    "As predicted. 14B was not measured: the run's time was up.",
    "As with any function of torch; the gradients are those of the ops.",
    "As compute capability 8.0 it takes cuDNN's attention: these are forwards without flash_sm90.",
    "As planned, unless a world was opened since.",
    "Whose defaults count follows from the tensors' names.",
    "Whoever waits is let in before all who came later, since nobody passes.",
    "Something else took the GPU's memory. The message has a table of who holds what.",
    "A part is loaded by whoever needs it first, while others wait.",
    "One for all, or one for each block of a row.",
    "Self-Forcing 1.3B, 832x480, window 21; the world that ships makes 645 frames a second.",
    "Each is a folder there (CONTRIBUTING.md).",
    "last_words.h lets a handler name the file.",
    "The 3-D table splits a head's D/2 pairs over frame, row and column of the grid.",
    "A pattern such as out_%04d.png or one picture as RGB frames, in the order in which they lie.",
    "Clocks and power vary by 5 %, so read the ratios as such).",
    "Its warps take 32 values of K in turn and multiply straight.",
    "Where two jobs do not fit they take turns, and neither runs out.",
    "Throws not_found, io or corrupt (also for a container that is not allowed).",
    "Where another set of adapters or another precision is used, it is another step.",
    "Throws io when the mapped file is no longer as long as it was.",
    "There is no step of the loop in which it may change.",
    "The name alone; empty where it is none of these.",
    "A file that appears under its name whole or not at all: it is written under a name of its own in the same folder.",
    "It is made to be right, not to be the fastest.",
    "The second warpgroup a few steps behind the first, so that one multiplies while the other stores.",
    "The frame is gone before it is encoded.",
    "Links whose target is missing are left out, and a warning says so.",
    "Another visitor is told so, and let in when the world is free.",
    "1 to 32 threads share a position, each of whose packs of 8 values they read once.",
    "0: as many as there are processors for us.",
    "Keys and values of earlier frames are looked at.",
    "The product of two short tensors may be as large as a file likes, before anything is made of it.",
    "A component has become so many times slower than the middle one of its run.",
    "Prompts may say \"thrice\", and `Of a thing.` in quotes is nobody's comment.",
    "With one seed a window's noise depends on what was drawn before it.",
    "How the values of a derived tensor lie in its file.",
    "This is no longer needed, and it is said that nobody misses it.",
    "Uses it if there are so many keys that it is faster.",
    "Folders are searched in this order, and files are searched for values that are not numbers.",
    "The file is compared byte by byte; each value is the reference's bit for bit.",
    "Freed blocks are the ones that count, and unused ones are the rest.",
    "which of the two is faster depends on the width",
]


def run(tool, files, *arguments, then=None):
    """Runs the tool on a tree of these files, or, with `then`, on a tree whose first files are committed and to which those of `then` are added."""
    with tempfile.TemporaryDirectory() as name:
        def write(files):
            for path, text in files.items():
                file = pathlib.Path(name) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)

        def git(*words):
            subprocess.run(["git", "-C", name, "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false", *words],
                           check=True, stdout=subprocess.DEVNULL)
        git("init", "-q")
        write(files)
        if then is not None:
            git("add", "-A")
            git("commit", "-q", "-m", "first")
            write(then)
        done = subprocess.run([tool, *arguments, name], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def sources(sentences):
    """Writes the sentences as comments of C++ and of Python and as items of a page. Returns the files, and the line of each sentence in them."""
    lines, at = [[], [], []], {}
    for sentence in sentences:
        at[len(lines[0]) + 1] = sentence
        words = sentence.split("\n")
        for out, first, more, after in ((lines[0], "// ", "// ", "int a;"), (lines[1], "# ", "# ", "a = 1"), (lines[2], "- ", "  ", "")):
            out += [(more if i else first) + w for i, w in enumerate(words)] + [after]
    return {name: "\n".join(text) + "\n" for name, text in zip(("src/a.cpp", "tools/a.py", "docs/a.md"), lines)}, at


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    for name in [n for n in os.environ if n.startswith("GIT_")]:  # if a hook of git runs this test, they name the hook's tree
        del os.environ[name]
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(tool.parent))
    from prose_patterns import PATTERNS
    assert {name for name, _ in REFUSED} == {name for name, _, _ in PATTERNS}, "each pattern has a sentence that it refuses"

    files, at = sources(PASSED)
    files["docs/a.md"] = re.sub(r"(?m)^(.{110,118})(?=.)", r"\1\n", files["docs/a.md"])  # no wide lines
    code, said = run(tool, files, "--all")
    assert code == 0, said

    files, at = sources([sentence for _, sentence in REFUSED])
    code, said = run(tool, files, "--all")
    expected = dict(zip(at, (name for name, _ in REFUSED)))
    for file in files:
        for line, name in expected.items():
            assert code == 1 and f"{file}:{line}: {name}: " in said, f"{file}:{line}: {name}: {at[line]}\n{said}"

    # The tool reads trailing comments and docstrings; code, texts, code blocks, tables, headings and bold labels are not.
    both = {"src/a.h": "int a;  // Of a thread's two rows.\n", "b.py": 'def f():\n    """What it holds."""\n'}
    assert run(tool, both, "--all")[1].count("fragment") == 2
    aside = {"src/a.h": 'f("// What it holds.");\nint thrice;\n', "b.py": 'a = "# thrice"\nb = """\nthrice"""\n',
             "a.md": "# What it holds.\n```\nthrice\n```\n| What it holds. |\n- **What is left.** The rows stay.\n"}
    assert run(tool, aside, "--all")[0] == 0, run(tool, aside, "--all")

    # Without --all only added lines count.
    old = "// This runs thrice.\nint a;\n"
    assert run(tool, {"src/a.cpp": old}, "--all")[0] == 1
    assert run(tool, {"src/a.cpp": old}, "--base", "HEAD", then={"src/a.cpp": old + "// This runs three times.\n"})[0] == 0
    code, said = run(tool, {"src/a.cpp": old}, "--base", "HEAD", then={"src/a.cpp": old + "// And this hitherto.\n"})
    assert code == 1 and "src/a.cpp:3: old-word" in said and "src/a.cpp:1" not in said, said
    code, said = run(tool, {"src/a.cpp": old}, "--base", "HEAD", then={"src/b.cpp": old})
    assert code == 1 and "src/b.cpp:1: old-word: \"thrice\": write an everyday word" in said, said
    assert run(tool, {"src/a.cpp": old}, "--base", "nowhere", then={})[0] == 1
    assert run(tool, {"src/a.cpp": old}, then={})[0] == 0, "one commit, and nothing to compare it with"

    # Sizes of pages, and how many comments begin with "Of".
    for path, words in (("ARCHITECTURE.md", 1800), ("README.md", 450), ("src/base/README.md", 600)):
        assert run(tool, {path: "word\n" * words})[0] == 0, path
        code, said = run(tool, {path: "word\n" * (words + 1)})
        assert code == 1 and f"{path}: {words + 1} words, at most {words}" in said, said
    assert run(tool, {"models/world/README.md": "word\n" * 601})[0] == 0
    for path in ("README.md", "CONTRIBUTING.md", "docs/a.md"):
        assert run(tool, {path: "a " * 59 + "b\n" + "[a](https://" + "a" * 200 + ") " + "https://" + "b" * 200 + "\n"})[0] == 0, path
        code, said = run(tool, {path: "\n```\n" + "a" * 120 + "\n```\n"})
        assert code == 1 and f"{path}:3: 1 lines of 120 columns or more" in said, said
    assert run(tool, {"bench/notes/a.md": "a" * 200 + "\n"})[0] == 0
    of = "// Of two rows the first is read.\nint a;\n"
    assert run(tool, {"src/a.cpp": of * 20})[0] == 0
    code, said = run(tool, {"src/a.cpp": of * 21})
    assert code == 1 and "21 comments begin with \"Of\", at most 20 may" in said, said
    print("check_prose_test: ok")


if __name__ == "__main__":
    main()
