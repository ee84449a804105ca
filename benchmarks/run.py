#!/usr/bin/env python3
"""Measure Synod and its rivals side by side and write BENCHMARKS.md.

Every round runs Synod and each rival once, in a shuffled order, each in a process of its own that warms up before it
measures. Ratios are taken within a round, so that a slow moment of the machine weighs on all alike.
"""
import argparse
import datetime
import json
import os
import platform
import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RECORDS = HERE / "results" / "records"
PROFILES = HERE / "profiles.md"  # what profiles show where a bar is missed, by hand
PROCESS_LIMIT = 900  # seconds
QUIET, PATIENCE = 0.2, 10  # wait until less than so many CPUs are busy, for at most so many seconds

SYNOD, TWO_CLIENTS, BYTES = "Synod", "Synod, two clients on two threads", "Synod, int8"


class Rival:
    def __init__(self, name, script, mode, bar=None):
        self.name, self.script, self.mode, self.bar = name, script, mode, bar


class Workload:
    """What is run, who is compared, and the bars: `best_bar` against whichever rival is fastest in a round, `memory_bar`
    for Synod's peak memory as a share of that of the named rival, `bytes_bar` for how many times faster it is in int8."""

    def __init__(self, title, arguments, rivals, field="samples_per_second", unit="samples/s", threads=1, records=False,
                 best_bar=None, memory_bar=None, bytes_bar=None):
        self.title, self.arguments, self.rivals, self.field, self.unit = title, arguments, rivals, field, unit
        self.threads, self.records, self.best_bar, self.memory_bar = threads, records, best_bar, memory_bar
        self.bytes_bar = bytes_bar


# A bar is the least acceptable ratio rival / Synod in seconds, that is, how many times faster Synod must be.
TRAINING = [
    Rival("JAX, epoch in one scan", "jax", "scan", 2.2),
    Rival("JAX, jitted step", "jax", "step"),
    Rival("TensorFlow, epoch in one graph", "tensorflow", "epoch-graph"),
    Rival("Keras fit", "tensorflow", "keras-fit", 12),
    Rival("PyTorch eager", "torch", "eager", 14),
    Rival("PyTorch foreach", "torch", "foreach"),
    Rival("PyTorch compile", "torch", "compile", 8),
    Rival("MindSpore graph", "mindspore", "graph", 12),
    Rival("burn", "rust", "burn", 5),
    Rival("candle", "rust", "candle", 5),
]


def inference(onnxruntime_bar):
    return [
        Rival("ONNX Runtime", "onnxruntime", "cpu", onnxruntime_bar),
        Rival("burn", "rust", "burn"),
        Rival("candle", "rust", "candle"),
        Rival("JAX", "jax", "scan"),
        Rival("PyTorch eager", "torch", "eager"),
        Rival("PyTorch compile", "torch", "compile"),
        Rival("TensorFlow function", "tensorflow", "epoch-graph"),
        Rival("MindSpore graph", "mindspore", "graph"),
    ]


PRODUCTS = [
    Rival("OpenBLAS (NumPy)", "numpy", "openblas", 0.95),
    Rival("MKL (PyTorch)", "torch", "eager"),
    Rival("faer", "rust", "faer"),
    Rival("gemm", "rust", "gemm"),
]


def pytorch(*modes, bar=None):
    return [Rival(f"PyTorch {mode}", "torch", mode, bar) for mode in modes]


GRAPHS = [Rival("TensorFlow, epoch in one graph", "tensorflow", "epoch-graph"),
          Rival("MindSpore graph", "mindspore", "graph")]
IMAGES = pytorch("eager", "nchw", "fused", "compile")
RESNET_INFERENCE = [Rival("ONNX Runtime", "onnxruntime", "cpu", 0.9), *pytorch("eager", "nchw", "compile"),
                    Rival("TensorFlow function", "tensorflow", "epoch-graph"), GRAPHS[1]]
LOADERS = [Rival(f"DataLoader, {what}, {n} workers", "torch", f"{way}-{n}")
           for way, what in (("workers", "row by row"), ("batched", "batch by batch")) for n in (0, 1, 2)]
WORKLOADS = {
    "autoencoder": Workload("Autoencoder, one epoch of training (10,120 rows, batch 10, RMSprop), one thread",
                            ["autoencoder"], TRAINING),
    "inference-1": Workload("Autoencoder inference, batch 1, one thread", ["autoencoder-inference", "--batch", "1"],
                            inference(4)),
    "inference-1024": Workload("Autoencoder inference, batch 1024, one thread",
                               ["autoencoder-inference", "--batch", "1024"], inference(1.1)),
    "gemm-1024": Workload("Matrix product 1024³, f32, one thread", ["gemm", "1024", "1024", "1024"], PRODUCTS,
                          "gflops", "GFLOP/s"),
    "gemm-2048": Workload("Matrix product 2048³, f32, one thread", ["gemm", "2048", "2048", "2048"], PRODUCTS,
                          "gflops", "GFLOP/s"),
    "mlp-2nn": Workload("2NN, one epoch of training (10,000 images, batch 10, SGD), one thread", ["mlp-2nn"],
                        [Rival("JAX, epoch in one scan", "jax", "scan", 1.2),
                         *pytorch("eager", "foreach", "fused", "compile", bar=4), *GRAPHS]),
    "cnn-mnist-10": Workload("CNN, one epoch of training (1,000 images, batch 10, SGD), one thread",
                             ["cnn-mnist", "--batch", "10"], [*IMAGES, *GRAPHS], best_bar=1.3),
    "cnn-mnist-50": Workload("CNN, one epoch of training (1,000 images, batch 50, SGD), one thread",
                             ["cnn-mnist", "--batch", "50"], [*IMAGES, *GRAPHS], best_bar=1.0),
    "char-lstm": Workload("Character LSTM, one epoch of training (100 sequences of 80, batch 10, SGD), one thread",
                          ["char-lstm"], [*pytorch("eager", "fused", "compile", bar=2), *GRAPHS]),
    "resnet50-train": Workload("ResNet-50, one step of training (224 x 224, batch 8, SGD with momentum), two threads",
                               ["resnet50-train", "--batch", "8"], [*IMAGES, *GRAPHS], "peak_memory_mb",
                               "MB at the peak", threads=2, best_bar=1.0, memory_bar=("PyTorch eager", 1.0)),
    "resnet50-inference-1": Workload("ResNet-50 inference, f32, batch 1, two threads",
                                     ["resnet50-inference", "--batch", "1"], RESNET_INFERENCE, threads=2,
                                     bytes_bar=2),
    "resnet50-inference-8": Workload("ResNet-50 inference, f32, batch 8, two threads",
                                     ["resnet50-inference", "--batch", "8"], RESNET_INFERENCE, threads=2,
                                     bytes_bar=2),
    "record-scan": Workload("Scan of 1,000,000 rows of 40 for a time range and a label, one thread", ["record-scan"],
                            [Rival("pyarrow, Parquet as by default", "pyarrow", "default", 1.0),
                             Rival("pyarrow, Parquet plain", "pyarrow", "plain", 1.0)],
                            unit="rows/s", records=True),
    "pipeline": Workload("Shuffled batches of 128 from 1,000,000 rows of 40, an epoch, two threads",
                         ["pipeline", "--batch", "128"], LOADERS, unit="rows/s", threads=2, records=True, best_bar=3),
}
TWO_CLIENTS_BAR = 1.9  # times the work of one client per second
LIMITS = [("first_step_ms", "Start to first training step", 50), ("compile_ms", "Compilation of the training graph", 20)]


def say(text):
    print(text, file=sys.stderr, flush=True)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "no output").replace(str(ROOT), ".").replace("|", "/").replace("`", "'")[:200]


def run(command, cwd=ROOT, limit=None):
    """(standard output, None) or (None, the error in one line)."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None, f"took longer than {limit} s"
    except OSError as error:
        return None, last_line(str(error))
    if done.returncode:
        error = [line for line in done.stderr.splitlines() if line.startswith("error")][:1]
        return None, last_line(error[0] if error else done.stderr or f"exit status {done.returncode}")
    return done.stdout, None


def busy_cpus():
    """How many CPUs the rest of the machine keeps busy, or the hypervisor takes away, at this moment."""
    def ticks():
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        return user + nice + system + irq + softirq + steal

    before, start = ticks(), time.monotonic()
    time.sleep(0.5)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - start)


def wait_for_quiet():
    """The CPUs still busy when waiting ended."""
    end = time.monotonic() + PATIENCE
    while (busy := busy_cpus()) > QUIET and time.monotonic() < end:
        pass
    return busy


def built(target, binary):
    return Path(os.environ.get("CARGO_TARGET_DIR") or target) / "release" / binary


def prepare(scripts):
    """Build Synod, install the rivals: {script: (command, error)}, with Synod's under SYNOD."""
    say("building Synod")
    _, error = run(["cargo", "build", "--release", "-p", "synod-benchmarks"])
    commands = {SYNOD: ([built(ROOT / "target", "synod-benchmarks")], error)}
    for script in scripts:
        say(f"installing {script}")
        if script == "rust":
            package = HERE / "peers" / "rust"
            _, error = run(["cargo", "build", "--release", "--locked"], cwd=package)
            commands[script] = [built(package / "target", "peer-rust")], error
        else:
            _, error = run([HERE / "peers" / "install.sh", script])
            commands[script] = [HERE / f".venv-{script}" / "bin" / "python", HERE / "peers" / f"peer_{script}.py"], error
        if error:
            say(f"  {script}: {error}")
    return commands


def make_records(prepared):
    """The rows that Synod and its rivals read; made once."""
    command, error = prepared
    if error or (RECORDS / "values.npy").exists():
        return
    say("writing the record file")
    _, error = run([*command, "make-records", "--data", RECORDS])
    if error:
        say(f"  {error}")


def measure(prepared, arguments):
    """One process: its JSON line as a dictionary, with `error` set if there is none."""
    command, error = prepared
    if error:
        return {"error": error}
    output, error = run(command + arguments, limit=PROCESS_LIMIT)
    if error:
        return {"error": error}
    try:
        line = json.loads(output.strip().splitlines()[-1])
        return line if line["median"] > 0 else {"error": "median is not positive"}
    except (ValueError, LookupError, TypeError):
        return {"error": "no JSON line: " + last_line(output)}


def rounds_of(name, commands, options, log):
    """[{contender: line}], one per round."""
    workload = WORKLOADS[name]
    arguments, threads = [*workload.arguments, "--reps", str(options.reps)], str(workload.threads)
    if workload.records:
        arguments += ["--data", str(RECORDS)]
    contenders = {SYNOD: (SYNOD, [*arguments, "--threads", threads, "--json"])}
    if name == "autoencoder":
        contenders[TWO_CLIENTS] = (SYNOD, [*arguments, "--threads", "2", "--json"])
    if workload.bytes_bar:
        contenders[BYTES] = (SYNOD, [*arguments, "--int8", "--threads", threads, "--json"])
    for rival in (r for r in workload.rivals if r.name not in options.skip):
        contenders[rival.name] = (rival.script, [*arguments, "--threads", threads, "--mode", rival.mode])
    shuffle, rounds = random.Random(f"{options.seed} {name}"), []
    for number in range(options.rounds):
        order, lines = list(contenders), {}
        shuffle.shuffle(order)
        for contender in order:
            script, words = contenders[contender]
            busy = wait_for_quiet()
            line = lines[contender] = {"busy_cpus": busy, **measure(commands[script], words)}
            say(f"{name}  round {number + 1}/{options.rounds}  {contender}: "
                + (line.get("error") or f"{line['median']:.4g} s"))
            log.write(json.dumps({"round": number + 1, "contender": contender, **line}) + "\n")
            log.flush()
        rounds.append(lines)
    return rounds


def valid(rounds, contender, field="median"):
    found = [lines.get(contender, {}).get(field) for lines in rounds]
    return [value for value in found if value is not None]


def ratios(rounds, above, below):
    """Per round, where both ran: seconds of `above` / seconds of `below`."""
    return [lines[above]["median"] / lines[below]["median"] for lines in rounds
            if "median" in lines.get(above, {}) and "median" in lines.get(below, {})]


def first_error(rounds, contender):
    return next((lines[contender]["error"] for lines in rounds if "error" in lines.get(contender, {})), None)


def seconds(value):
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 0.1 or unit == "µs":
            return f"{value * scale:.3g} {unit}"


def spread(values, show):
    return f"{show(median(values))} ({show(min(values))}–{show(max(values))})"


def verdict(reached):
    return "reached" if reached else "**missed**"


def table(name, rounds):
    """The lines of one workload's table, and its failures."""
    workload, failures = WORKLOADS[name], []
    lines = [f"## {workload.title}", "", f"| | time | {workload.unit} | times Synod's time | bar | |",
             "|---|---|---|---|---|---|"]
    for rival in [Rival(SYNOD, SYNOD, None), *workload.rivals]:
        bar = f"≥ {rival.bar}" if rival.bar else ""
        times, error = valid(rounds, rival.name), first_error(rounds, rival.name)
        if error:
            failures.append(f"- {name}, {rival.name}, in {len(rounds) - len(times)} of {len(rounds)} rounds: `{error}`")
        if not times:
            lines.append(f"| {rival.name} | {'failed' if error else 'not run'} | | | {bar} | {'**not measured**' if bar else ''} |")
            continue
        rates = valid(rounds, rival.name, workload.field)
        against = [] if rival.name == SYNOD else ratios(rounds, rival.name, SYNOD)
        judged = (verdict(median(against) >= rival.bar) if against else "**not measured**") if rival.bar else ""
        lines.append(f"| {rival.name} | {spread(times, seconds)} | {f'{median(rates):,.0f}' if rates else ''} | "
                     f"{spread(against, '{:.2f}'.format) if against else ''} | {bar} | {judged} |")
    return [*lines, *whole_workload_bars(workload, rounds), ""], failures


def whole_workload_bars(workload, rounds):
    """Rows for the bars that concern all rivals, or memory instead of time."""
    rows = []
    if bar := workload.best_bar:
        names = [rival.name for rival in workload.rivals]
        best = [min(ratios([lines], name, SYNOD)[0] for name in names if ratios([lines], name, SYNOD))
                for lines in rounds if any(ratios([lines], name, SYNOD) for name in names)]
        judged = verdict(median(best) >= bar) if best else "**not measured**"
        shown = spread(best, "{:.2f}".format) if best else ""
        rows.append(f"| Fastest rival of each round | | | {shown} | ≥ {bar} | {judged} |")
    if bar := workload.bytes_bar:
        rounds_with = [lines for lines in rounds if "median" in lines.get(BYTES, {})]
        faster = ratios(rounds_with, SYNOD, BYTES)
        judged = verdict(median(faster) >= bar) if faster else "**not measured**"
        shown = spread(faster, "{:.2f}".format) if faster else ""
        time_taken = spread(valid(rounds_with, BYTES), seconds) if rounds_with else ""
        rows.append(f"| Synod in int8, and how many times faster than in f32 | {time_taken} | | {shown} | ≥ {bar} | {judged} |")
    if workload.memory_bar:
        name, bar = workload.memory_bar
        shares = [lines[SYNOD]["peak_memory_mb"] / lines[name]["peak_memory_mb"] for lines in rounds
                  if "median" in lines[SYNOD] and "median" in lines.get(name, {})]
        judged = verdict(median(shares) <= bar) if shares else "**not measured**"
        shown = spread(shares, "{:.2f}".format) if shares else ""
        rows.append(f"| Synod's peak memory as a share of {name} | | {shown} | | ≤ {bar} | {judged} |")
    return rows


def training_limits(rounds):
    """Synod's own bars: scaling to two clients, and the time before the first step."""
    lines = ["## Synod alone", "", "| | measured | bar | |", "|---|---|---|---|"]
    failures = []
    if error := first_error(rounds, TWO_CLIENTS):
        failures.append(f"- autoencoder, {TWO_CLIENTS}: `{error}`")
    scaling = [2 * ratio for ratio in ratios(rounds, SYNOD, TWO_CLIENTS)]
    rows = [("Two independent clients on two threads, work per second against one", scaling, "{:.2f} ×",
             f"≥ {TWO_CLIENTS_BAR} ×", lambda value: value >= TWO_CLIENTS_BAR)]
    for field, title, bar in LIMITS:
        rows.append((title, valid(rounds, SYNOD, field), "{:.1f} ms", f"≤ {bar} ms", lambda value, bar=bar: value <= bar))
    for title, values, form, bar, reached in rows:
        if values:
            lines.append(f"| {title} | {spread(values, form.format)} | {bar} | {verdict(reached(median(values)))} |")
        else:
            lines.append(f"| {title} | | {bar} | **not measured** |")
    return [*lines, ""], failures


def machine(results):
    info = Path("/proc/cpuinfo").read_text()
    fields = dict(map(str.strip, line.split(":", 1)) for line in info.split("\n\n")[0].splitlines() if ":" in line)
    flags = fields.get("flags", "").split()
    simd = next((simd for simd in ("avx512f", "avx2", "avx", "sse2") if simd in flags), platform.machine())
    used = {line["simd"] for rounds in results.values() for lines in rounds for line in lines.values() if line.get("simd")}
    return (f"{fields.get('model name', platform.processor())} (family {fields.get('cpu family', '?')}, model "
            f"{fields.get('model', '?')}), {len(os.sched_getaffinity(0))} cores, best SIMD {simd}, "
            f"used by Synod: {', '.join(sorted(map(str, used))) or 'unknown'}")


def versions(results):
    found = {f"{line['peer']} {line['version']}" for rounds in results.values() for lines in rounds
             for line in lines.values() if line.get("version") and line.get("peer")}
    commit, _ = run(["git", "rev-parse", "--short", "HEAD"])
    rustc, _ = run(["rustc", "--version"])
    return ", ".join([f"Synod at {(commit or 'unknown commit').strip()}", (rustc or "rustc unknown").strip(),
                      f"Python {platform.python_version()}", *sorted(found)])


def report(results, options):
    part = []
    if options.only:
        part.append(f"only {', '.join(options.only)}")
    if options.quick:
        part.append("a quick run, too short to judge by")
    tables, failures = [], []
    for name, rounds in results.items():
        lines, failed = table(name, rounds)
        tables, failures = tables + lines, failures + failed
        if name == "autoencoder":
            lines, failed = training_limits(rounds)
            tables, failures = tables + lines, failures + failed
    busy = [line["busy_cpus"] for rounds in results.values() for lines in rounds for line in lines.values()]
    missed = sum("**missed**" in line for line in tables)
    unmeasured = sum("**not measured**" in line for line in tables)
    reached = sum(line.endswith("| reached |") for line in tables)
    return "\n".join([
        "# Benchmarks", "",
        "Written by `benchmarks/run.py`; do not edit." + (f" **Partial: {'; '.join(part)}.**" if part else ""), "",
        f"- Machine: {machine(results)}",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Disturbance: before a process started, other programs kept {median(busy):.2f} CPUs busy in the median, "
        f"{max(busy):.2f} at worst.",
        f"- Versions: {versions(results)}",
        f"- Method: {options.rounds} rounds or more; in each, Synod and every rival run once in shuffled order, each in its own "
        f"pinned process, warmed up, {options.reps} repetitions, of which the median counts. Shown: median over the rounds "
        "(smallest–largest). The ratio is taken within each round: above 1, Synod is faster.",
        "- PyTorch's CUDA wheel runs on the CPU, with empty stand-ins for the CUDA libraries it links against.",
        f"- Bars: {reached} reached, {missed} missed, {unmeasured} not measured.", "",
        *tables,
        *(["## Failures", "", *failures, ""] if failures else []),
        *(["## What profiles show", "", PROFILES.read_text()] if PROFILES.exists() else []),
    ])


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds of one repetition: checks that all runs")
    parser.add_argument("--only", choices=WORKLOADS, nargs="+", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the order within the rounds")
    parser.add_argument("--skip", nargs="+", default=[], metavar="RIVAL", help="rivals not to run, such as 'MindSpore graph'")
    parser.add_argument("--report", action="store_true", help="run nothing: report the latest logged rounds of each workload")
    parser.add_argument("--output", type=Path, default=ROOT / "BENCHMARKS.md")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.reps = 1 if options.quick else 3
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def logged(name):
    """The rounds of a workload's latest log, as `rounds_of` gave them; none without a log."""
    logs = sorted((HERE / "results").glob(f"{name}-*.jsonl"))
    rounds = {}
    for line in logs[-1].read_text().splitlines() if logs else []:
        line = json.loads(line)
        rounds.setdefault(line.pop("round"), {})[line.pop("contender")] = line
    # A run that was cut short leaves a round in which not all have run.
    whole = max(map(len, rounds.values()), default=0)
    return [rounds[number] for number in sorted(rounds) if len(rounds[number]) == whole]


def main():
    options = parse()
    if options.report:
        results = {name: rounds for name in options.only or WORKLOADS if (rounds := logged(name))}
        options.only = list(results) if len(results) < len(WORKLOADS) else None
        options.rounds = min(map(len, results.values()), default=0)
        options.output.write_text(report(results, options))
        return say(f"wrote {options.output}")
    if target := os.environ.get("CARGO_TARGET_DIR"):
        os.environ["CARGO_TARGET_DIR"] = os.path.abspath(target)  # cargo runs in other directories than ours
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # leave the source tree clean
    names = options.only or list(WORKLOADS)
    commands = prepare(dict.fromkeys(rival.script for name in names for rival in WORKLOADS[name].rivals))
    if any(WORKLOADS[name].records for name in names):
        make_records(commands[SYNOD])
    results = {}
    directory = HERE / "results"
    directory.mkdir(exist_ok=True)
    for name in names:
        with open(directory / f"{name}-{time.strftime('%Y%m%dT%H%M%S')}.jsonl", "w") as log:
            results[name] = rounds_of(name, commands, options, log)
    options.output.write_text(report(results, options))
    say(f"wrote {options.output}")
    if not all(valid(rounds, SYNOD) for rounds in results.values()):
        sys.exit("Synod did not run in every workload")


if __name__ == "__main__":
    main()
