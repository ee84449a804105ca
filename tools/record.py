#!/usr/bin/env python3
"""Records what the program computes, so that a change of its inside can be shown to change nothing.

    tools/record.py                  prints the record: figures, digests of bits, instructions
    tools/record.py --check FILE     compares with a record, line by line; exit code 1 if anything differs
    tools/record.py --only demo smd  some parts only (PARTS below)
    tools/record.py --binaries DIR   the programs of another build, instead of target/release

A record is a line per fact: "part key value". Digests are of results with all their digits. Instructions are counted by
callgrind, to 0.1 %. Facts hold for one machine level (AVX2, AVX-512): the first line names it. Data that are not here are
skipped, and said to be.
"""
import argparse
import hashlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ["demo", "smd", "m100-ipmi", "m100", "federated-synthetic", "mcmahan-2nn", "resumed", "instructions"]
FIGURES = ["auroc", "ap", "f1", "precision", "recall", "fpr", "event_recall", "false_alarms_per_node_month"]
# Instructions that differ by less than this are the same.
SAME = 0.001


def digest(value):
    text = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:16]


def run(command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=ROOT, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def level():
    flags = Path("/proc/cpuinfo").read_text()
    return "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else "portable"


def arms(document, alarms):
    """Each arm's mean figures, a digest of every node's, and a digest of the first arm's alarms."""
    for arm in document["arms"]:
        name = arm["arm"].replace(" ", "_")
        mean = arm["mean"].get("metrics", arm["mean"])
        figures = " ".join(f"{key}={mean[key]:.6f}" for key in FIGURES if mean.get(key) is not None)
        yield f"{name}.mean", figures
        nodes = {node: {key: found.get("metrics", found).get(key) for key in FIGURES} for node, found in arm["nodes"].items()}
        yield f"{name}.nodes", digest(nodes)
    times = [(a["node"], a["from"], a["to"], a["peak"], a["threshold"]) for a in alarms]
    yield "alarms.count", len(times)
    yield "alarms.times_and_scores", digest(times)
    yield "alarms.metrics", digest([[m["metric"] for m in a["metrics"]] for a in alarms])


def backtest(synod, folder, arguments, name):
    document = json.loads(run([synod, *arguments, "--runs", folder, "--json"]))
    lines = (folder / name / "alarms.jsonl").read_text().splitlines()
    yield from arms(document, [json.loads(line) for line in lines])


def experiment(name):
    def record(synod, folder):
        yield from backtest(synod, folder, ["backtest", ROOT / f"experiments/{name}.toml"], f"{name}-backtest")
    return record


def demo(synod, folder):
    yield from backtest(synod, folder, ["demo"], "demo")


def tensors(path):
    """A digest of a safetensors file's numbers, whatever its header says."""
    data = path.read_bytes()
    (header,) = struct.unpack("<Q", data[:8])
    return digest(data[8 + header:])


def without_grid(text):
    return re.split(r"\n# Rounds as published|\n\[grid\]", text)[0] + "\n"


def configured(folder, name, changes):
    """An experiment's file with absolute paths and some lines changed."""
    text = without_grid((ROOT / f"experiments/{name}.toml").read_text())
    text = text.replace('"../data', f'"{ROOT}/data')
    for before, after in changes:
        if before not in text:
            sys.exit(f"experiments/{name}.toml has no {before!r} any more; mend tools/record.py")
        text = text.replace(before, after)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def cell(synod, folder):
    path = configured(folder, "mcmahan-2nn", [('clients = 100', 'clients = 100\npartition = "iid"\nfraction = 0.1')])
    summary = json.loads(run([synod, "train", path, "--runs", folder, "--json"]))
    yield "rounds_to_target", summary["rounds_to_target"]
    yield "accuracy", summary["accuracy"]
    yield "model", tensors(folder / "mcmahan-2nn" / "model.safetensors")


def killed_and_resumed(synod, folder, path, name):
    command = [str(synod), "train", str(path), "--runs", str(folder), "--json"]
    checkpoint = folder / name / "checkpoint.safetensors"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run([*command, "--resume"])
    return tensors(checkpoint)


def resumed(synod, folder):
    path = configured(folder, "mnist-mlp", [("epochs = 12", "epochs = 3")])
    yield "classifier", killed_and_resumed(synod, folder, path, "mnist-mlp")
    path = configured(folder, "fedavg-mnist-2nn", [("rounds = 200", "rounds = 6\nstrategy = \"scaffold\""), ("target = 0.97\n", "")])
    yield "federation", killed_and_resumed(synod, folder, path, "fedavg-mnist-2nn")


def instructions(benchmarks, folder):
    for work in ["fit", "score", "push", "backtest"]:
        out = folder / "callgrind.out"
        printed = run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
                       "--toggle-collect=*counted*", benchmarks, "watch-count", work])
        found = json.loads(printed)
        total = re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.M)
        yield f"{work}.instructions", int(total[1])
        yield f"{work}.bits_with_avx2", found["bits"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--binaries", type=Path)
    chosen = parser.parse_args()
    if chosen.binaries is None:
        run(["cargo", "build", "--quiet", "--release", "-p", "synod", "-p", "synod-benchmarks"])
    binaries = (chosen.binaries or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release").resolve()
    synod, benchmarks = binaries / "synod", binaries / "synod-benchmarks"
    mnist = (ROOT / "data/mnist/train-images-idx3-ubyte").exists()
    site = (ROOT / "../shared/data").exists()
    parts = {
        "demo": (True, lambda f: demo(synod, f)),
        "smd": (site, lambda f: experiment("smd")(synod, f)),
        "m100-ipmi": (site, lambda f: experiment("m100-ipmi")(synod, f)),
        "m100": (site, lambda f: experiment("m100")(synod, f)),
        "federated-synthetic": (True, lambda f: experiment("federated-synthetic")(synod, f)),
        "mcmahan-2nn": (mnist, lambda f: cell(synod, f)),
        "resumed": (mnist, lambda f: resumed(synod, f)),
        "instructions": (True, lambda f: instructions(benchmarks, f)),
    }
    facts = {"machine level": level()}
    print(f"machine level {level()}")
    for part in chosen.only:
        here, record = parts[part]
        if not here:
            print(f"{part}: its data are not here; skipped", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            for key, value in record(Path(folder)):
                facts[f"{part} {key}"] = str(value)
                print(f"{part} {key} {value}", flush=True)
    if chosen.check:
        sys.exit(compare(chosen.check, facts, chosen.only))


def compare(path, facts, only):
    recorded = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            part, key, value = line.split(" ", 2)
            recorded[f"{part} {key}"] = value
    different = 0
    for key in sorted(recorded.keys() | facts.keys()):
        part = key.split(" ")[0]
        if part not in only and part != "machine":
            continue
        before, now = recorded.get(key), facts.get(key)
        if before == now:
            continue
        if key.endswith(".instructions") and before and now:
            ratio = int(now) / int(before)
            print(f"  {key}: {before} -> {now} ({ratio:.3f} x)", file=sys.stderr)
            different += ratio > 1 + SAME
            continue
        different += 1
        print(f"  {key}: {before} -> {now}", file=sys.stderr)
    print(f"{different} of {len(recorded)} recorded facts differ", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    main()
