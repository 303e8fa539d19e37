"""What the programs of this folder share: AdamW with a cosine, logs as CSV and JSON, checkpoints as safetensors from which a run
goes on bit for bit.

A task is any object with `draw(generator)`, the shards of the next batch in a list; `loss(model, shard)`, the sum of the losses of a
shard and how many there are; `check(model)`, measures on what no step has seen, as a dict. A batch is cut into shards always alike,
a thread computes a shard, and gradients are added in the shards' order: so the number of threads changes no bit. torch's own operators
run on one thread each, since their sums depend on the number of threads."""

import csv
import ctypes
import gc
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import safetensors
import safetensors.torch
import torch

import hga

WARM = 0.05  # of the steps, in which the rate rises
COLUMNS = ("step", "loss", "rate", "seconds")


def arguments(parser, *, steps, rate, out):
    """The options of the loop."""
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--rate", type=float, default=rate, help="of AdamW, at its highest")
    parser.add_argument("--seeds", type=int, default=3, help="each variant is trained so often; seeds are 0, 1, ..")
    parser.add_argument("--threads", type=int, default=2, help="as many shards of a batch at a time; no bit depends on it")
    parser.add_argument("--out", default=out, help="the folder of logs and checkpoints")
    parser.add_argument("--save", type=int, default=100, help="write a checkpoint every so many steps")
    parser.add_argument("--stop", type=int, default=0, help="stop after so many steps, as if interrupted; 0: never")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints in --out; runs that are complete are read")


# ---- where it ran ----


def machine():
    """What a number of seconds depends on."""
    cpu = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), cpu)
    except OSError:
        pass
    return {"cpu": cpu, "cores": os.cpu_count(), "torch": torch.__version__, "hga": hga.__version__, "commit": commit()}


def commit():
    """That of the checkout where this file lies; "" where it lies in none."""
    try:
        said = subprocess.run(["git", "-C", pathlib.Path(__file__).parent, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    except OSError:
        return ""
    return said.stdout.strip()


class Peak:
    """The most memory that was resident since it was made, above what was resident then; None where Linux does not tell."""

    def __init__(self):
        gc.collect()
        try:
            ctypes.CDLL(None).malloc_trim(0)
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            self.before = self.status("VmRSS")
        except (OSError, AttributeError):
            self.before = None

    @staticmethod
    def status(name):
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024

    def bytes(self):
        return None if self.before is None else self.status("VmHWM") - self.before


# ---- what is written ----


def replaced(path, write):
    """A file that is whole or is not there: `write` makes another one, which takes its name."""
    other = path.with_name(path.name + ".new")
    write(other)
    os.replace(other, path)


def save_model(path, model, about):
    """The weights, and what a reader needs to know beside them, as text."""
    tensors = {name: x.detach().contiguous() for name, x in model.state_dict().items()}
    replaced(path, lambda p: safetensors.torch.save_file(tensors, p, metadata={key: str(value) for key, value in about.items()}))


FREE = ("attention", "out", "resume", "save", "seeds", "stop", "threads")  # options that do not change what a run computes


def settings(o):
    """The options that a run depends on."""
    return {name: value for name, value in sorted(vars(o).items()) if name not in FREE}


def same(folder, found, o):
    """A run goes on by the options with which it began."""
    for name, value in settings(o).items():
        if found.get(name) != value:
            sys.exit(f"{folder} was made with --{name.replace('_', '-')} {found.get(name)}, not {value}: nothing is resumed")


def save_state(path, step, optimizer, generator, o):
    """What a run goes on from, beside the weights."""
    tensors = {"generator": generator.get_state()}
    for i, state in optimizer.state_dict()["state"].items():
        tensors.update({f"{i}.{name}": x.contiguous() for name, x in state.items()})
    replaced(path, lambda p: safetensors.torch.save_file(tensors, p, metadata={"step": str(step), "settings": json.dumps(settings(o))}))


def load(folder, model, optimizer, generator, o):
    """The steps that were made; weights, moments and the generator are as they were then."""
    with safetensors.safe_open(folder / "state.safetensors", "pt") as file:
        same(folder, json.loads(file.metadata()["settings"]), o)
        step = int(file.metadata()["step"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    model.load_state_dict(safetensors.torch.load_file(folder / "model.safetensors"))
    generator.set_state(tensors.pop("generator"))
    found = optimizer.state_dict()
    for key, x in tensors.items():
        i, name = key.split(".")
        found["state"].setdefault(int(i), {})[name] = x
    optimizer.load_state_dict(found)
    return step


class Log:
    """A row a step; on resuming, those of the steps that were made are kept."""

    def __init__(self, path, steps_made):
        kept = []
        if steps_made:
            with open(path, newline="", encoding="utf-8") as file:
                kept = list(csv.reader(file))[1 : steps_made + 1]
        self.seconds = [float(row[COLUMNS.index("seconds")]) for row in kept]
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.rows = csv.writer(self.file, lineterminator="\n")
        self.rows.writerows([COLUMNS, *kept])

    def add(self, step, loss, rate, seconds):
        self.seconds.append(seconds)
        self.rows.writerow((step, f"{loss:.6f}", f"{rate:.6g}", f"{seconds:.4f}"))

    def close(self):
        self.file.close()


def progress(name, step, steps, loss):
    """One line that is written over on a terminal; a line now and then elsewhere."""
    if sys.stderr.isatty():
        print(f"\r{name} {step}/{steps} loss {loss:.3f} ", end="\n" if step == steps else "", file=sys.stderr, flush=True)
    elif step == steps or step % max(1, steps // 5) == 0:
        print(f"{name} {step}/{steps} loss {loss:.3f}", file=sys.stderr, flush=True)


# ---- training ----


def rate_at(step, o):
    rise = min(1.0, (step + 1) / max(1, WARM * o.steps))
    return o.rate * rise * 0.5 * (1 + math.cos(math.pi * step / o.steps))


class Shards:
    """The gradient of a batch, its shards on threads, added in their order."""

    def __init__(self, threads):
        torch.set_num_threads(1)
        self.pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) if threads > 1 else None

    def step(self, model, task, shards):
        """Leaves the mean's gradient in the parameters; returns the mean."""
        parameters = [p for p in model.parameters() if p.requires_grad]

        def back(shard):
            loss, n = task.loss(model, shard)
            return loss.item(), n, torch.autograd.grad(loss, parameters, allow_unused=True)

        found = list(self.pool.map(back, shards) if self.pool else map(back, shards))
        total = sum(n for _, n, _ in found)
        for i, p in enumerate(parameters):
            parts = [grads[i] for _, _, grads in found if grads[i] is not None]
            p.grad = None if not parts else sum(parts[1:], parts[0]) / total
        return sum(loss for loss, _, _ in found) / total

    def close(self):
        if self.pool:
            self.pool.shutdown()


def train(name, model, task, o, folder, seed, about):
    """Trains by the options `o`, in `folder`, and returns the measures: those of the task, the median processor time of a step and the
    most memory. None where it was told to stop before. `about` goes into the checkpoint."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    complete, state = folder / "run.json", folder / "state.safetensors"
    if o.resume and complete.exists():
        found = json.loads(complete.read_text(encoding="utf-8"))
        same(folder, found["settings"], o)
        return found
    complete.unlink(missing_ok=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.rate, weight_decay=0.01, betas=(0.9, 0.98))
    generator = torch.Generator().manual_seed(1000 + seed)  # the same batches for every variant
    first = load(folder, model, optimizer, generator, o) if o.resume and state.exists() else 0
    log, shards, peak = Log(folder / "log.csv", first), Shards(o.threads), Peak()
    last = min(o.steps, o.stop or o.steps)

    def save(made):
        save_model(folder / "model.safetensors", model, about)
        save_state(state, made, optimizer, generator, o)
        log.file.flush()

    for step in range(first, last):
        rate = rate_at(step, o)
        for group in optimizer.param_groups:
            group["lr"] = rate
        drawn = task.draw(generator)
        begin = time.process_time()
        loss = shards.step(model, task, drawn)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        log.add(step + 1, loss, rate, time.process_time() - begin)
        progress(name, step + 1, o.steps, loss)
        if (step + 1) % o.save == 0 or step + 1 == last:
            save(step + 1)
    log.close()
    shards.close()
    if last < o.steps:
        return None
    memory = peak.bytes()
    model.eval()
    with torch.no_grad():
        found = dict(task.check(model))
    model.train()
    found.update(seconds=sorted(log.seconds)[len(log.seconds) // 2], memory=memory,
                 parameters=sum(p.numel() for p in model.parameters()), name=name, seed=seed, settings=settings(o))  # fmt: skip
    replaced(complete, lambda p: p.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8"))
    return found
