#!/usr/bin/env bash
# Runs the kernels' tests at the AVX-512 level on any x86-64 Debian machine, by booting them in an emulated Skylake-X.
#
# Bochs emulates the CPU; a stock Debian kernel boots straight into the statically linked test binaries, which report
# over the serial port. `SYNOD_SIMD=avx512` makes the tests fail, not skip, if the level is missing. Takes five to ten
# minutes; AVX512_TIMEOUT (seconds, default 1800) bounds the emulation.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/avx512
cpu=corei7_skylake_x

install_packages() {
  local package missing=()
  for package in bochs bochsbios vgabios grub-pc-bin grub-common xorriso mtools cpio busybox-static \
    binutils libc6-dev python3; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo apt-get update -qq && sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
  else
    echo "Please install these Debian packages first: ${missing[*]}" >&2
    exit 1
  fi
}

fetch_kernel() {
  [ ! -s "$work/iso/boot/vmlinuz" ] || return 0
  local image
  image=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
  (cd "$work" && apt-get -o APT::Sandbox::User=root -qq download "$image")
  dpkg-deb -x "$work/$image"_*.deb "$work/kernel"
  cp "$work"/kernel/boot/vmlinuz-* "$work/iso/boot/vmlinuz"
  rm -rf "$work"/kernel "$work/$image"_*.deb
}

# Debug assertions stay on, as in `make test`; link-time optimisation would only cost build time.
build_tests() {
  RUSTFLAGS="-C target-feature=+crt-static" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
    cargo test --release --target "$target" -p synod-kernels --lib --tests --no-run --message-format json \
    >"$work/build.json"
  python3 - "$work/build.json" <<'PYTHON' | while read -r name path; do strip -o "$work/root/tests/$name" "$path"; done
import json, sys
for line in open(sys.argv[1]):
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        print(message["target"]["name"], message["executable"])
PYTHON
  [ -n "$(ls "$work/root/tests")" ]
}

write_init() {
  cp /bin/busybox "$work/root/bin/busybox"
  cat >"$work/root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1
export SYNOD_SIMD=avx512
echo "guest CPU:$(/bin/busybox sed -n 's/^model name.*://p' /proc/cpuinfo)"
echo "guest flags: $(/bin/busybox grep -m1 ^flags /proc/cpuinfo | /bin/busybox grep -o 'avx[^ ]*' | /bin/busybox xargs)"
verdict=pass
/tests/synod_kernels --nocapture --exact level::tests::the_level_asked_for_is_the_one_used || verdict=fail
for test in /tests/*; do
  echo "== ${test#/tests/}"
  "$test" --test-threads=1 || verdict=fail
done
echo "verdict: $verdict"
# Setting the speed again waits until the serial port has sent everything.
/bin/busybox stty -F /dev/ttyS0 115200
/bin/busybox poweroff -f
INIT
  chmod +x "$work/root/init"
}

# Bochs 2.7 misreports the size of the compacted register area, for which Linux would switch AVX off: hence clearcpuid.
# It also sleeps through the guest's idle time, slowly: hence idle=poll.
write_disc() {
  cat >"$work/iso/boot/grub/grub.cfg" <<'GRUB'
linux /boot/vmlinuz console=ttyS0,115200 loglevel=4 idle=poll clearcpuid=xsavec,xsaves mitigations=off nokaslr nosmp panic=1
initrd /boot/initrd
boot
GRUB
  (cd "$work/root" && find . | cpio -o -H newc --quiet) >"$work/iso/boot/initrd"
  grub-mkrescue -o "$work/disc.iso" "$work/iso" 2>"$work/mkrescue.log" || { cat "$work/mkrescue.log" >&2; exit 1; }
}

emulate() {
  rm -f "$work/serial.txt"
  echo continue >"$work/commands"
  cat >"$work/bochsrc" <<BOCHS
config_interface: textconfig
display_library: rfb, options="timeout=0"
plugin_ctrl: speaker=0
cpu: model=$cpu, count=1, ips=50000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=512, host=512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$work/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial.txt
log: $work/bochs.log
clock: sync=none
BOCHS
  # Debian's Bochs stops in its debugger first, hence the command file. Its exit code says nothing: it is 1 even after
  # a regular power-off. The term display would block on a terminal nobody reads; rfb waits for no viewer.
  timeout --kill-after=10 "${AVX512_TIMEOUT:-1800}" \
    bochs -q -f "$work/bochsrc" -rc "$work/commands" </dev/null >"$work/screen.txt" 2>&1 || true
}

report() {
  touch "$work/serial.txt"
  tr -d '\r' <"$work/serial.txt"
  if ! grep -q 'levels: .*avx512' "$work/serial.txt"; then
    echo "The emulated machine never reached the AVX-512 level; see $work/serial.txt and $work/bochs.log." >&2
    exit 1
  fi
  if ! grep -q '^verdict: pass' "$work/serial.txt"; then
    echo "The kernels' tests failed at the AVX-512 level." >&2
    exit 1
  fi
  echo "$(tr -d '\r' <"$work/serial.txt" | grep -c '^test .*\.\.\. ok$') tests passed with AVX-512 among the levels."
}

rm -rf "$work/root"
mkdir -p "$work"/root/{bin,tests,proc,dev} "$work/iso/boot/grub"
install_packages
fetch_kernel
echo "Building the tests ..." >&2
build_tests
write_init
write_disc
echo "Booting $cpu ..." >&2
emulate
report
