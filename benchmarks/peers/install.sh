#!/bin/sh
# Usage: install.sh [torch|tensorflow|jax|mindspore|onnxruntime|numpy|pyarrow|flower|evaluate|all]...
# Makes benchmarks/.venv-NAME for each; does nothing where the pinned requirements are already installed.
set -eu
peers=$(cd "$(dirname "$0")" && pwd)

ensure_venv_module() {
    python3 -c 'import venv, ensurepip' 2>/dev/null && return
    if [ "$(id -u)" != 0 ]; then
        echo "python3-venv is missing; install it with: apt-get install python3-venv" >&2
        exit 1
    fi
    apt-get update -qq && apt-get install -y -qq python3-venv
}

install() {
    venv=$peers/../.venv-$1 requirements=$peers/requirements-$1.txt
    [ -f "$requirements" ] || { echo "unknown rival: $1" >&2; exit 2; }
    cmp -s "$requirements" "$venv/installed.txt" && return
    echo "installing $1" >&2
    ensure_venv_module
    rm -rf "$venv"
    python3 -m venv "$venv"
    # The lists are complete; --no-deps keeps out the CUDA packages that PyTorch's wheel asks for.
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$requirements" >&2
    if [ "$1" = torch ]; then
        "$venv/bin/python" "$peers/cuda_stubs.py" "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
    fi
    cp "$requirements" "$venv/installed.txt"
}

[ $# -gt 0 ] || set -- all
[ "$1" != all ] || set -- torch tensorflow jax mindspore onnxruntime numpy pyarrow
for name; do install "$name"; done
