#!/usr/bin/env bash
# The image of launch/package/Dockerfile, built and used where no container engine runs: buildah builds it in a chroot, on a
# debian:12-slim that debootstrap makes (200 MB, from the mirror that this machine uses), and two ranks train in it. Needs root,
# the network, and the minutes of a build. The sources are those of the last commit.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" -eq 0 ] || { echo "needs root" >&2; exit 2; }
command -v buildah debootstrap >/dev/null ||
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends buildah debootstrap >/dev/null; }
. tests/long/clean_system.sh
folder=$(mktemp -d)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF=$folder/storage.conf
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/images"\nrunroot = "%s/run"\n' "$folder" "$folder" >"$CONTAINERS_STORAGE_CONF"
trap 'rm -rf --one-file-system "$folder"' EXIT

clean_system bookworm "$folder/debian"
base=$(buildah from scratch)
buildah add -q "$base" "$folder/debian" / >/dev/null
buildah commit -q "$base" docker.io/library/debian:12-slim >/dev/null
git clone -q . "$folder/sources"
buildah bud --pull-never -f launch/package/Dockerfile -t recollect "$folder/sources"
image=$(buildah from --pull-never localhost/recollect)
buildah copy -q "$image" configs /srv/try/configs >/dev/null
buildah copy -q "$image" examples/text /srv/try/examples/text >/dev/null
buildah run "$image" -- sh -c '
  cd /srv/try && recollect --version && recollect run --nproc-per-node 2 train configs/gpt2-tiny.yaml training.max_steps=3'
