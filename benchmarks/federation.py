"""Synod's and Flower's simulations of the same federation on this machine, in turns; prints both and their ratios.

Usage: python3 federation.py [--repeats 3] [--paper]
--paper also runs the anomaly paper's whole experiment (70 clients, 1,000 rounds of 20 steps each) by Synod, and says how long
Flower's rounds would add up to. Installs Flower and PyTorch beside itself first.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def run(command, **environment):
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def synod(binary, *arguments):
    return run([binary, "federation", "--json", *map(str, arguments)])


def flower(*arguments):
    torch = next((HERE / ".venv-torch" / "lib").glob("python3*")) / "site-packages"
    return run([HERE / ".venv-flower/bin/python", "peers/peer_flower.py", *map(str, arguments)], PYTHONPATH=str(torch))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--paper", action="store_true")
    args = parser.parse_args()
    subprocess.run([HERE / "peers/install.sh", "torch", "flower"], check=True)
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "synod-benchmarks"], cwd=HERE, check=True)
    metadata = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=HERE, check=True, capture_output=True)
    binary = pathlib.Path(json.loads(metadata.stdout)["target_directory"]) / "release" / "synod-benchmarks"

    ours, theirs, bare = [], [], []
    for _ in range(args.repeats):
        # Flower takes ten times as long, and the machine is not always as fast: so before and after.
        before = synod(binary, "--rounds", 9)["round_s"]
        theirs.append(flower("--rounds", 3)["round_s"])
        ours.append((before + synod(binary, "--rounds", 9)["round_s"]) / 2)
        print(f"Synod {ours[-1]:.3f} s a round, Flower {theirs[-1]:.2f} s: {theirs[-1] / ours[-1]:.1f} times", flush=True)
        bare.append(synod(binary, "--rounds", 40, "--steps", 0)["per_client_s"])
    ratio = statistics.median(t / o for o, t in zip(ours, theirs))
    print(f"a round of 10 clients, an epoch each: Synod {statistics.median(ours):.3f} s, "
          f"Flower with PyTorch {statistics.median(theirs):.2f} s; {ratio:.1f} times faster")
    nothing = flower("--rounds", 5, "--none")["per_client_s"]
    print(f"a client in a round without training: Synod {1e3 * statistics.median(bare):.3f} ms, Flower {1e3 * nothing:.1f} ms")
    if args.paper:
        whole = ["--clients", 70, "--steps", 20]
        total = synod(binary, *whole, "--rounds", 1000)["total_s"]
        one = flower(*whole, "--rounds", 3)["round_s"]
        print(f"70 clients, 1,000 rounds of 20 steps: Synod {total:.0f} s; Flower's rounds, measured on 3 of them, would "
              f"take {1000 * one / 3600:.1f} h, {1000 * one / total:.0f} times as long")


main()
