"""Runs the whole training, in order, within a time budget: tokenizer, held-out set, autoencoder, latents, denoiser, judgement.

    python3 training/pipeline.py --model models/sprites --work /tmp/sprites --processes 4 --vae-minutes 8.5 --dit-minutes 7.5

Finished stages are skipped when it is started again with the same work folder.
"""
import argparse
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", default="models/sprites")
    a.add_argument("--work", default="/tmp/sprites", help="bank, logs, marks of finished stages")
    a.add_argument("--processes", type=int, default=1)
    a.add_argument("--vae-minutes", type=float, default=30)
    a.add_argument("--dit-minutes", type=float, default=30, help="with encoding the latents")
    a.add_argument("--text-minutes", type=float, default=1.2)
    a.add_argument("--scenes", type=int, default=160000)
    a.add_argument("--limit", type=int, default=240, help="held-out captions to judge")
    a.add_argument("--warm", type=int, help="after this many seconds, compile the denoiser beside the autoencoder's training")
    a.add_argument("--judge", default="", help="more arguments for evaluate.py")
    a.add_argument("--vae", default="", help="more arguments for vae.py")
    a.add_argument("--text", default="", help="more arguments for text.py")
    a.add_argument("--dit", default="", help="more arguments for dit.py")
    args = a.parse_args()
    model, work = os.path.abspath(args.model), os.path.abspath(args.work)
    os.makedirs(work, exist_ok=True)
    os.makedirs(model, exist_ok=True)
    bank = os.path.join(work, "bank.npz")

    def command(script, *words, many=True):
        run = ["-m", "torch.distributed.run", f"--nproc_per_node={args.processes}", "--master_port=29577"] if many and args.processes > 1 else []
        return [sys.executable, *run, os.path.join(HERE, script), *map(str, words)]

    def stage(name, *cmd):
        mark = os.path.join(work, name + ".done")
        if os.path.exists(mark):
            return
        began = time.time()
        with open(os.path.join(work, name + ".log"), "a") as log:
            subprocess.run(cmd, check=True, stdout=log, stderr=subprocess.STDOUT)
        open(mark, "w").close()
        print(f"{time.strftime('%H:%M:%S')} {name}: {time.time() - began:.0f} s", flush=True)

    if not os.path.exists(os.path.join(model, "tokenizer", "tokenizer.json")):
        stage("tokenizer", *command("tokenizer.py", "--out", os.path.join(model, "tokenizer"), many=False))
    stage("heldout", *command("world.py", os.path.join(model, "heldout.json"), many=False))
    making = None
    if not os.path.exists(bank):  # runs on the CPU during the autoencoder's training
        making = subprocess.Popen(command("dit.py", "bank", "--bank", bank, "--scenes", args.scenes, "--model", model, many=False))
    warming = None
    if args.warm is not None:  # fills the compiler's cache for the denoiser meanwhile
        delayed = "import subprocess, sys, time; time.sleep(int(sys.argv[1])); subprocess.run(sys.argv[2:])"
        warming = subprocess.Popen([sys.executable, "-c", delayed, str(args.warm), *command("dit.py", "warm", *args.dit.split(), many=False)],
                                   stdout=open(os.path.join(work, "warm.log"), "w"), stderr=subprocess.STDOUT)
    stage("vae", *command("vae.py", "--out", os.path.join(model, "vae"), "--minutes", args.vae_minutes, *args.vae.split()))
    words = os.path.join(work, "text_encoder")
    preparing = None
    if not os.path.exists(words):  # runs on the last device while the clips are encoded
        preparing = subprocess.Popen(command("text.py", "--bank", bank, "--out", words, "--minutes", args.text_minutes, *args.text.split(), many=False),
                                     env={**os.environ, "LOCAL_RANK": str(args.processes - 1)},
                                     stdout=open(os.path.join(work, "text.log"), "w"), stderr=subprocess.STDOUT)
    stage("dit", *command("dit.py", "train", "--text", words, "--bank", bank, "--model", model, "--minutes", args.dit_minutes, *args.dit.split()))
    for process in (making, warming, preparing):
        if process:
            process.wait()
    stage("judge", *command("evaluate.py", "--model", model, "--set", os.path.join(model, "heldout.json"), "--limit", args.limit,
                            "--psnr", 32, "--out", os.path.join(work, "clips"), "--report", os.path.join(work, "report.json"),
                            *args.judge.split()))


if __name__ == "__main__":
    main()
