"""Trains the talking-photo model: all stages in order, in calls that may be short.

    python3 training/talker/pipeline.py --model models/talker --work /tmp/talker --processes 2    # until it is done
    python3 training/talker/pipeline.py … --call-minutes 9    # or for 9 minutes; the same call again continues

The stages are the tokenizer, the bank, the autoencoder (with the encoders beside it), the denoiser, the LoRA
and the judgement. A stage that is done is not done again. The denoiser's stage may be interrupted anywhere:
--work keeps weights and moments. If the next call runs on another machine, training continues from the
weights in --model with fresh moments, and the bank is made again.
"""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Pipeline:
    def __init__(self, args):
        self.args, self.begin = args, time.time()
        self.parts = os.path.join(args.model, "parts")
        os.makedirs(self.parts, exist_ok=True)
        os.makedirs(args.work, exist_ok=True)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(args.work, "inductor"))
        self.paths = ["--bank", os.path.join(args.work, "bank"), "--model", args.model]

    def left(self):
        """Returns the minutes that are left of this call."""
        return self.args.call_minutes - (time.time() - self.begin) / 60

    def done(self, name, mark=False):
        path = os.path.join(self.parts, f"{name}.done")
        if mark:
            open(path, "w").close()
        return os.path.exists(path)

    def start(self, script, *more, team=False):
        n = self.args.processes
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(n)] if team and n > 1 else [sys.executable]
        print(time.strftime("%H:%M:%S"), script, *more, flush=True)
        return subprocess.Popen([*run, os.path.join(HERE, script), *map(str, more)])

    def finish(self, process):
        if process.wait():
            sys.exit(f"a stage failed with {process.returncode}")

    def run(self, script, *more, team=False):
        self.finish(self.start(script, *more, team=team))

    def prepare(self):
        """Prepares the bank on this machine, the autoencoder and the encoders; returns True when they are done."""
        a, waiting = self.args, []
        if not os.path.exists(os.path.join(a.model, "google", "umt5-xxl", "tokenizer.json")):
            self.run("words.py", "--out", os.path.join(a.model, "google", "umt5-xxl"))
        if not os.path.exists(os.path.join(a.model, "heldout.json")):
            self.run("heldout.py", os.path.join(a.model, "heldout.json"))
        if not os.path.exists(os.path.join(a.work, "bank", "bank.json")):
            waiting.append(self.start("bank.py", *self.paths[2:], "--out", self.paths[1], "--people", a.people, "--utterances", a.utterances))
        if not self.done("encoders"):
            waiting.append(self.start("encoders.py", *self.paths, "--minutes", a.encoder_minutes))
        rounds = [k for k in range(a.vae_rounds) if not self.done(f"vae-{k}")]
        if rounds:
            waiting.append(self.start("train.py", *self.paths, "--warm"))
        while rounds and self.left() > a.vae_minutes + 0.5:
            k = rounds.pop(0)
            begin = ["--lr", 1e-3, "--from", os.path.join(self.parts, "vae")] if k else ["--from", a.vae]
            self.run("video.py", *self.paths, *begin, "--minutes", a.vae_minutes, team=True)
            self.done(f"vae-{k}", mark=True)
        for process in waiting:
            self.finish(process)
        return not rounds

    def denoiser(self):
        """Trains the denoiser as long as this call has time; returns True when it is done."""
        a, path = self.args, os.path.join(self.parts, "denoiser.json")
        since = json.load(open(path))["until"] if os.path.exists(path) else 0.0
        if since >= 1:
            return True
        minutes = min(self.left() - 0.3, (1 - since) * a.denoiser_minutes)
        until = min(1.0, since + minutes / a.denoiser_minutes)
        until = 1.0 if until > 0.995 else until
        self.run("train.py", *self.paths, "--work", a.work, "--minutes", round(minutes, 3), "--since", round(since, 4), "--until", round(until, 4), team=True)
        with open(path, "w") as f:
            json.dump({"until": until}, f)
        return until >= 1

    def all(self):
        a = self.args
        if not self.prepare():
            return print("the next call goes on with the autoencoder", flush=True)
        if self.left() < 1.5 or not self.denoiser():
            return print("the next call goes on with the denoiser", flush=True)
        if not self.done("lora"):
            if self.left() < a.lora_minutes + 0.5:
                return print("the next call makes the LoRA", flush=True)
            self.run("distill.py", *self.paths, "--work", a.work, "--minutes", a.lora_minutes, team=True)
            self.done("lora", mark=True)
        self.run("export.py", "--model", a.model)


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", default="models/talker")
    a.add_argument("--work", default="/tmp/talker")
    a.add_argument("--vae", default="models/sprites/vae", help="the autoencoder to begin with")
    a.add_argument("--processes", type=int, default=1, help="one for each device")
    a.add_argument("--call-minutes", type=float, default=1e6)
    a.add_argument("--people", type=int, default=12000)
    a.add_argument("--utterances", type=int, default=3000)
    a.add_argument("--vae-minutes", type=float, default=5, help="of a round")
    a.add_argument("--vae-rounds", type=int, default=2)
    a.add_argument("--encoder-minutes", type=float, default=2)
    a.add_argument("--denoiser-minutes", type=float, default=13)
    a.add_argument("--lora-minutes", type=float, default=2.5)
    Pipeline(a.parse_args()).all()
