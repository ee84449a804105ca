#!/usr/bin/env bash
# Installs what the other targets need, or says what is missing.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=(build-essential)
command -v python3 >/dev/null || missing+=(python3)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq "${missing[@]}"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo apt-get update -qq && sudo apt-get install -y -qq "${missing[@]}"
  else
    echo "Please install these Debian packages first: ${missing[*]}" >&2
    exit 1
  fi
fi
if ! command -v cargo >/dev/null; then
  echo "Please install Rust 1.95 or newer first (rustup, with rustfmt and clippy)." >&2
  exit 1
fi
if ! cargo nextest --version >/dev/null 2>&1; then
  echo "Installing cargo-nextest ..." >&2
  cargo install --quiet --locked cargo-nextest
fi
