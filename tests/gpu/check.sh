#!/usr/bin/env bash
# Everything that needs a GPU, from a bundle and nothing else but Python 3, in six minutes on one H100 or H200 with 16
# cores; one table of what is right, one of what is fast, and both in check.json. Make the bundle where nvcc is:
#     cmake --preset bundle && cmake --build --preset bundle && cmake --install build/bundle --component bundle --prefix bundle
#     bundle/check.sh [--no-bench]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || { echo "check.sh needs python3, and none of its packages" >&2; exit 2; }
exec python3 "$here/share/check.py" "$@"
