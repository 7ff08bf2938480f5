#!/usr/bin/env bash
# Fetches cudnn-frontend's headers, which the CUDA build needs for its attention, into build/third_party: this version
# and no other, by its hash. Does nothing where they are. Needs python3 with pip; the wheel's code is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.32.0  # one of those that engine/ops/cuda/cudnn_frontend.cmake takes
hash=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
folder=build/third_party/cudnn-frontend-$version
[ -f "$folder/include/cudnn_frontend.h" ] && exit 0

python3 -m pip --version >/dev/null 2>&1 || { echo "needs python3 with pip (Debian: python3-pip)" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "nvidia-cudnn-frontend==$version --hash=sha256:$hash" >"$work/wanted"
# Headers are the same in every wheel; the hash is that of this one.
python3 -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: \
  --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 --dest "$work" -r "$work/wanted"
python3 - "$work"/*.whl "$work/out" <<'PYTHON'
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
wheel.extractall(sys.argv[2], [n for n in wheel.namelist() if n.startswith("include/") or "/LICENSE" in n])
PYTHON
mkdir -p "$(dirname "$folder")"
rm -rf "$folder"
mv "$work/out" "$folder"
echo "cudnn-frontend $version: $folder"
