"""Trains the model of the steered world, all of it in order, in calls as short as one likes.

    python3 training/steer/pipeline.py --seconds 300 --work /tmp/steer --state out/world-state --out DIR      # the same again goes on
    python3 training/steer/pipeline.py --export models/world --state out/world-state                          # the files that ship

Autoencoder, flow, self-rollout, judgement. What goes from call to call (54 MB in files below 16 MB) is written to --work and --out; a call
goes on from --work, or where that is empty from --state. The bank of clips is made anew in each call.
"""
import argparse
import json
import os
import shutil
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START = time.time()


def read(folder):
    path = os.path.join(folder, "progress.json")
    if not os.path.exists(path):
        return {"vae": 0.0, "flow": 0.0, "self": 0.0, "calls": 0}
    with open(path) as f:
        return json.load(f)


class Pipeline:
    def __init__(self, args):
        self.args, self.work = args, os.path.join(args.work, "state")
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(args.work, "inductor"))
        os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
        os.makedirs(args.work, exist_ok=True)
        if not os.path.exists(os.path.join(self.work, "progress.json")) and os.path.exists(os.path.join(args.state, "progress.json")):
            shutil.copytree(args.state, self.work, dirs_exist_ok=True)
        os.makedirs(self.work, exist_ok=True)
        self.progress = read(self.work)
        import net  # noqa: F401  finds the folder above
        from common import Team
        self.team = Team()

    def left(self):
        return self.args.seconds - (time.time() - START)

    def keep(self):
        with open(os.path.join(self.work, "progress.json"), "w") as f:
            json.dump(self.progress, f)
        if self.args.out:
            shutil.copytree(self.work, os.path.join(self.args.out, "world-state"), dirs_exist_ok=True)

    def share(self, stage, budget, reserve):
        """(seconds, since, until) of a stage in what this call has left."""
        since = self.progress[stage]
        seconds = min(self.left() - reserve, (1 - since) * budget)
        until = min(1.0, since + seconds / budget)
        return seconds, since, 1.0 if until > 0.97 else until

    def vae(self):
        import video
        a, folder = self.args, os.path.join(self.work, "vae")
        seconds, since, until = self.share("vae", a.vae_seconds, 12)
        if seconds < 20 and not a.max_steps:
            return
        video.train(self.team, folder if since > 0 else a.vae, folder, seconds, a.vae_batch, max_steps=a.max_steps, since=since, until=until)
        self.progress["vae"] = until
        self.keep()

    def denoiser(self):
        import bank
        import train
        a = self.args
        if self.left() < 60 and not a.max_steps:
            return
        clips = bank.Bank(self.team, os.path.join(self.work, "vae"), a.eyes, min(a.bank_seconds, 0.3 * self.left()), 1000 + self.progress["calls"],
                          most=a.most)
        self.keep()
        for stage, budget in (("flow", a.flow_seconds), ("self", a.self_seconds)):
            seconds, since, until = self.share(stage, budget, a.judge_seconds)
            if since >= 1 or (seconds < 15 and not a.max_steps):
                continue
            train.train(self.team, stage, clips, self.work, seconds, since, until, a.batch, max_steps=a.max_steps, optimizer=a.optimizer)
            self.progress[stage] = until
            self.keep()
            if until < 1:
                return

    def all(self):
        a, team = self.args, self.team
        team.log(f"begin: {self.progress}, {a.seconds} s")
        if self.progress["vae"] < 1:
            self.vae()
        if self.progress["vae"] >= 1:
            self.denoiser()
        self.progress["calls"] += 1
        self.keep()
        if self.progress["flow"] > 0:
            import evaluate
            long = self.progress["self"] > 0
            table = evaluate.run(team, self.work, a.eyes, a.judge_limit, a.judge_length if a.judge_length else 60 if long else 10, os.path.join(a.out or a.work, "sheet.png"))
            with open(os.path.join(a.out or a.work, "judged.jsonl"), "a") as f:
                f.write(json.dumps({**self.progress, **table}) + "\n")
        team.log(f"end: {self.progress}, {time.time() - START:.0f} s")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--seconds", type=float, default=300, help="of this call")
    a.add_argument("--work", default="/tmp/steer")
    a.add_argument("--state", default="out/world-state")
    a.add_argument("--out", help="a folder for what goes on to the next call, the judgement and a sheet of pictures")
    a.add_argument("--vae", default="models/talker/Wan2.1_VAE.safetensors", help="the autoencoder to begin with")
    a.add_argument("--eyes", default="models/talker/models_clip_vision.safetensors")
    a.add_argument("--vae-seconds", type=float, default=290)
    a.add_argument("--bank-seconds", type=float, default=50)
    a.add_argument("--flow-seconds", type=float, default=240)
    a.add_argument("--self-seconds", type=float, default=200)
    a.add_argument("--judge-seconds", type=float, default=45, help="kept back for the judgement at a call's end")
    a.add_argument("--judge-limit", type=int, default=14)
    a.add_argument("--judge-length", type=float, default=0, help="seconds; 0: 10, or 60 with self-rollout")
    a.add_argument("--vae-batch", type=int, default=4)
    a.add_argument("--batch", type=int, default=32)
    a.add_argument("--optimizer", choices=("adamw", "muon"), default="adamw", help="of the denoiser")
    a.add_argument("--most", type=int, default=9000, help="clips of a bank")
    a.add_argument("--max-steps", type=int, default=0, help="of each stage, to try it out")
    a.add_argument("--export", help="write the model's files into this folder, and nothing else")
    args = a.parse_args()
    if args.export:
        import export
        return export.there(args.state, args.eyes, args.export)
    Pipeline(args).all()


if __name__ == "__main__":
    main()
