#!/usr/bin/env bash
# The Debian package in a clean system: deb_in_chroot.sh [PACKAGE.deb] [SUITE]. debootstrap makes the smallest one that there is
# (200 MB, from the mirror that this machine uses); apt installs the package there with what it depends on; it trains, alone and
# as two ranks. Needs root, and the network. Without a first word: what launch/package/build.sh has made.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=$(realpath "${1:-$(ls build/bundle/recollect_*.deb)}")
suite=${2:-bookworm}
[ "$(id -u)" -eq 0 ] || { echo "needs root" >&2; exit 2; }
command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap; }

. tests/long/clean_system.sh
system=$(mktemp -d)
leave() {
  umount "$system/dev/shm" "$system/proc" 2>/dev/null || true
  rm -rf --one-file-system "$system"
}
trap leave EXIT
clean_system "$suite" "$system"
mount -t proc proc "$system/proc"
mount -t tmpfs shm "$system/dev/shm"

inside() { chroot "$system" env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
cp "$package" "$system/package.deb"
inside apt-get update -qq
inside apt-get install -y -qq --no-install-recommends /package.deb >/dev/null
inside recollect --version
small="model.type=gpt2 model.vocab_size=64 model.n_positions=16 model.n_embd=16 model.n_layer=2 model.n_head=2
  data.format=random data.high=64 data.sequence_length=8 training.max_steps=5 training.global_batch_size=4
  device.threads=1 checkpoint.save_model=true"
echo "{}" >"$system/empty.yaml"
# shellcheck disable=SC2086
inside recollect train /empty.yaml $small output_dir=/alone
# shellcheck disable=SC2086
inside recollect run --nproc-per-node 2 train /empty.yaml $small parallelism.tensor_parallel_size=2 output_dir=/two
# shellcheck disable=SC2086
inside mpirun --allow-run-as-root --oversubscribe -np 2 recollect train /empty.yaml $small output_dir=/mpi
for run in alone two mpi; do test -s "$system/$run/model.safetensors"; done
echo "the package trains in a clean $suite: alone, as two ranks of recollect run, and as two of mpirun"
