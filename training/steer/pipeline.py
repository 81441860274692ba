"""Trains the model of the steered world: all stages in order, in calls that may be short. Repeating a call continues the training.

    python3 training/steer/pipeline.py --seconds 540 --work /tmp/steer --state out/world-state --out DIR
    python3 training/steer/pipeline.py --export models/world --state out/world-state    # the files that ship

The stages are the autoencoder, flow, a second stage in which the model sees its own past ("self"), the autoencoder's decoder alone, and the
judgement. The state that goes from call to call (five files below 16 MB, 37 MB) is written to --work and --out, once a minute and at each stage's
end: a call that is killed loses a minute. A call continues from --work, or if that is empty from --state. The bank of clips is made anew in each
call."""
import argparse
import json
import os
import shutil
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START = time.time()
PROGRESS = "progress.json"
STAGES = ("vae", "flow", "self", "decoder")
CARRIED = ("vae/config.json", "vae/diffusion_pytorch_model.safetensors", "denoiser-0.pt", "denoiser-1.pt", PROGRESS)  # the progress file comes last


def read(folder):
    path = os.path.join(folder, PROGRESS)
    if not os.path.exists(path):
        return {"vae": 0.0, "flow": 0.0, "self": 0.0, "decoder": 0.0, "calls": 0, "log": []}
    with open(path) as f:
        return {"decoder": 0.0, **json.load(f)}


def carry(source, target):
    """Copies the files so that, even if it is interrupted, each one is complete, the old one or the new one."""
    for name in CARRIED:
        a, b = os.path.join(source, name), os.path.join(target, name)
        if os.path.exists(a):
            os.makedirs(os.path.dirname(b), exist_ok=True)
            shutil.copyfile(a, b + ".part")
            os.replace(b + ".part", b)


class Pipeline:
    def __init__(self, args):
        self.args, self.work = args, os.path.join(args.work, "state")
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(args.work, "inductor"))
        os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
        os.makedirs(self.work, exist_ok=True)
        if not os.path.exists(os.path.join(self.work, PROGRESS)):
            carry(args.state, self.work)
        self.progress = read(self.work)
        import net  # noqa: F401  finds the folder above
        from common import Team
        self.team = Team()

    def left(self):
        return self.args.seconds - (time.time() - START)

    def keep(self):
        path = os.path.join(self.work, PROGRESS)
        with open(path + ".part", "w") as f:
            json.dump(self.progress, f, indent=1)
        os.replace(path + ".part", path)
        if self.args.out:
            carry(self.work, os.path.join(self.args.out, "world-state"))

    def share(self, stage, budget, reserve):
        """Returns (seconds, since, until) of a stage in the rest of this call. If the remainder of a stage would hardly last for compiling, it is
        left out."""
        since = self.progress[stage]
        seconds = min(self.left() - reserve, (1 - since) * budget)
        until = min(1.0, since + max(0.0, seconds) / budget)
        return seconds, since, 1.0 if (1 - until) * budget < min(40, 0.12 * budget) else until

    def run(self, stage, train, until):
        """Runs `train` with `kept`, and returns how far the stage is then."""
        def kept(so_far):
            self.progress[stage] = round(so_far, 4)
            self.keep()
        entry = train(kept=kept)
        self.progress[stage] = until
        self.progress["log"].append(entry)
        self.keep()

    def vae(self):
        import video
        a, folder = self.args, os.path.join(self.work, "vae")
        seconds, since, until = self.share("vae", a.vae_seconds, 15)
        if seconds < 20 and not a.max_steps:
            return
        self.run("vae", lambda kept: video.train(self.team, folder if since > 0 else a.vae, folder, seconds, a.vae_batch, lr=a.vae_lr, max_steps=a.max_steps,
                                                 since=since, until=until, kept=kept), until)

    def decoder(self):
        import video
        a, folder = self.args, os.path.join(self.work, "vae")
        seconds, since, until = self.share("decoder", a.decoder_seconds, 15 + (a.judge_seconds if a.judge_limit else 0))
        if seconds < 20 and not a.max_steps:
            return
        self.run("decoder", lambda kept: video.train(self.team, folder, folder, seconds, a.vae_batch, lr=a.decoder_lr, max_steps=a.max_steps,
                                                     since=since, until=until, kept=kept, decoder=True), until)

    def rehearse(self):
        """Makes two steps of each of the denoiser's stages and keeps nothing: errors show early, and the next call finds everything compiled."""
        import bank
        import train
        a, folder, began = self.args, os.path.join(self.args.work, "rehearsal"), time.time()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(self.work, "vae"), os.path.join(folder, "vae"))  # a bank writes its measurements beside the weights
        clips = bank.Bank(self.team, os.path.join(folder, "vae"), a.eyes, 0, 0, most=1)
        for stage in ("flow", "self"):
            train.train(self.team, stage, clips, folder, 600, 0.0, 0.01, a.batch, max_steps=2, optimizer=a.optimizer)
        shutil.rmtree(folder)
        self.team.log(f"rehearsal: {time.time() - began:.0f} s")

    def denoiser(self):
        import bank
        import train
        a = self.args
        if self.progress["self"] >= 1:
            return
        if self.left() < a.judge_seconds + 2 * a.bank_seconds + 30 and not a.max_steps:
            if self.left() > 50:
                self.rehearse()
            return
        clips = bank.Bank(self.team, os.path.join(self.work, "vae"), a.eyes, min(a.bank_seconds, 0.3 * self.left()), 1000 + self.progress["calls"],
                          most=a.most)
        self.keep()
        for stage, budget in (("flow", a.flow_seconds), ("self", a.self_seconds)):
            seconds, since, until = self.share(stage, budget, a.judge_seconds)
            if since >= 1 or (seconds < 45 and not a.max_steps):
                continue
            self.run(stage, lambda kept: train.train(self.team, stage, clips, self.work, seconds, since, until, a.batch, lr=a.lr, max_steps=a.max_steps,
                                                     optimizer=a.optimizer, kept=kept), until)
            if until < 1:
                return

    def judge(self):
        import evaluate
        a = self.args
        long = self.progress["self"] > 0
        table = evaluate.run(self.team, self.work, a.eyes, a.judge_limit, a.judge_length if a.judge_length else 60 if long else 10,
                             os.path.join(a.out or a.work, "sheet.png"))
        self.progress["log"].append({"judged": table})
        self.keep()

    def all(self):
        a, team = self.args, self.team
        team.log(f"begin: {[self.progress[s] for s in STAGES]}, call {self.progress['calls']}, {time.time() - START:.0f} of {a.seconds} s gone")
        if self.progress["vae"] < 1:
            self.vae()
        if self.progress["vae"] >= 1:
            self.denoiser()
        if self.progress["self"] >= 1 and self.progress["decoder"] < 1:
            self.decoder()
        self.progress["calls"] += 1
        self.keep()
        if self.progress["flow"] > 0 and a.judge_limit:
            self.judge()
        team.log(f"end: {[self.progress[s] for s in STAGES]}, {time.time() - START:.0f} s")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--seconds", type=float, default=540, help="of this call")
    a.add_argument("--work", default="/tmp/steer")
    a.add_argument("--state", default="out/world-state")
    a.add_argument("--out", help="a folder for what goes on to the next call and a sheet of pictures")
    a.add_argument("--vae", default="models/talker/Wan2.1_VAE.safetensors", help="the autoencoder to begin with")
    a.add_argument("--eyes", default="models/talker/models_clip_vision.safetensors")
    a.add_argument("--vae-seconds", type=float, default=480)
    a.add_argument("--vae-lr", type=float, default=1e-3)
    a.add_argument("--bank-seconds", type=float, default=45, help="behind what compiling takes")
    a.add_argument("--flow-seconds", type=float, default=420)
    a.add_argument("--self-seconds", type=float, default=1800)
    a.add_argument("--decoder-seconds", type=float, default=540)
    a.add_argument("--decoder-lr", type=float, default=8e-4)
    a.add_argument("--judge-seconds", type=float, default=45, help="kept back for the judgement at a call's end")
    a.add_argument("--judge-limit", type=int, default=14, help="scripts; 0: no judgement")
    a.add_argument("--judge-length", type=float, default=0, help="seconds; 0: 10, or 60 after the second stage")
    a.add_argument("--vae-batch", type=int, default=4)
    a.add_argument("--batch", type=int, default=32)
    a.add_argument("--lr", type=float, default=1e-3, help="of the denoiser")
    a.add_argument("--optimizer", choices=("adamw", "muon"), default="adamw", help="of the denoiser")
    a.add_argument("--most", type=int, default=9000, help="clips of a bank")
    a.add_argument("--max-steps", type=int, default=0, help="of each stage, to try it out")
    a.add_argument("--export", help="write the model's files into this folder, and nothing else")
    a.add_argument("--back", help="write into --state what this model's folder holds, to go on with its second stage, and nothing else")
    args = a.parse_args()
    if args.back:
        import export
        return export.back(args.back, args.state)
    if args.export:
        import export
        return export.there(args.state, args.eyes, args.export)
    Pipeline(args).all()


if __name__ == "__main__":
    main()
