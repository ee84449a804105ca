"""Let PyTorch's CUDA wheel load on a machine without a GPU and without the NVIDIA packages (several GiB).

The wheel links against the CUDA libraries even when only the CPU is used. This writes one small library per missing
one, next to PyTorch's own, in which every function returns "no device". The CPU code of the wheel is untouched.
Usage: python cuda_stubs.py SITE_PACKAGES    (needs gcc and readelf)
"""
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

NO_DEVICE = 100  # cudaErrorNoDevice
VENDOR = re.compile(r"lib(cu|nv|nccl)\w*\.so\.\d+")


def readelf(*args):
    return subprocess.run(["readelf", "-W", *args], check=True, capture_output=True, text=True).stdout


def wanted(library):
    """The vendor libraries that `library` needs, and {vendor library: {version: {(kind, symbol)}}}."""
    needed = {m[0] for m in VENDOR.finditer(readelf("-d", library)) if m[0] != "libcuda.so.1"}
    # The version table names the library a version belongs to ("NVSHMEM" is not a file name).
    owner, current = {}, None
    for line in readelf("-V", library).splitlines():
        if m := re.search(r"File: (\S+)", line):
            current = m[1]
        elif m := re.search(r"Name: (\S+) ", line):
            owner[m[1]] = current
    symbols = defaultdict(lambda: defaultdict(set))
    for line in readelf("--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] != "UND":
            continue
        name, _, version = fields[7].partition("@")
        version = version.strip("@")
        if version and VENDOR.fullmatch(owner.get(version, "")):
            symbols[owner[version]][version].add((fields[3], name))
        elif not version and re.match(r"(cu|nv|nccl)[A-Za-z]", name):
            symbols["libcudart.so.13"][""].add((fields[3], name))  # any loaded library may provide these
    return needed, symbols


def build(path, versions):
    lines, script = [], []
    for version, symbols in versions.items():
        for kind, name in sorted(symbols):
            lines.append(f"char {name}[64];" if kind == "OBJECT" else f"int {name}(void) {{ return {NO_DEVICE}; }}")
        if version:
            script.append(f"{version} {{ global: {' '.join(n + ';' for _, n in sorted(symbols))} }};")
    with tempfile.TemporaryDirectory() as work:
        source, map_file = Path(work, "stub.c"), Path(work, "stub.map")
        source.write_text("\n".join(lines))
        map_file.write_text("\n".join(script))
        flags = [f"-Wl,--version-script={map_file}"] if script else []
        subprocess.run(["gcc", "-shared", "-fPIC", "-fno-builtin", "-O1", f"-Wl,-soname,{path.name}", *flags,
                        "-o", path, source], check=True)


def main():
    directory = Path(sys.argv[1], "torch", "lib")
    needed, symbols = set(), defaultdict(lambda: defaultdict(set))
    for library in directory.glob("lib[tc]*.so"):
        more, found = wanted(library)
        needed |= more
        for vendor, versions in found.items():
            for version, names in versions.items():
                symbols[vendor][version] |= names
    for name in sorted(needed):
        build(directory / name, symbols[name])
    print(f"{len(needed)} stand-ins for CUDA libraries", file=sys.stderr)


main()
