# Sourced by the scripts that build: installs what is missing, with apt. Does nothing where all is there.

packages="g++ cmake ninja-build git libopenmpi-dev openmpi-bin libyaml-cpp-dev libtomlplusplus-dev libfmt-dev
  nlohmann-json3-dev libpcre2-dev nettle-dev libboost-program-options-dev libgtest-dev libbenchmark-dev
  iproute2"

# What tests compare with; those that need what is missing are skipped. chromium opens the reports; clang makes the
# fuzzers.
test_packages="chromium python3-jsonschema python3-venv clang libclang-rt-14-dev"

# install_packages [more...]
install_packages() {
  command -v dpkg-query >/dev/null || return 0  # not Debian: CMake will name what it cannot find
  missing=""
  for package in $packages "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  echo "installing:$missing"
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "need root or sudo to install:$missing" >&2; return 2; }
    as_root="sudo"
  fi
  $as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# What reads our files back and is in no Debian package, into build/python: TensorBoard, MLflow's client, and MkDocs.
fetch_readers() {
  [ -x build/python/bin/pip ] || python3 -m venv build/python || return 0
  for package in tensorboard==2.20.0 mlflow-skinny==3.17.2 mkdocs-material==9.8.2; do
    build/python/bin/pip install --quiet --disable-pip-version-check $package ||
      echo "without $package; what asks it is skipped" >&2
  done
}

# Whether clang is here, with the library that fuzzers are linked with.
can_fuzz() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address -x c++ -o /dev/null - 2>/dev/null
}

# build PRESET [targets...]: configures once, with $cmake_options, then builds what has changed.
build() {
  preset=$1
  shift
  if [ "$preset" = bundle ] && ! command -v nvcc >/dev/null; then
    echo "building for CPUs alone: there is no nvcc" >&2
    cmake_options="${cmake_options:-} -DRECOLLECT_CUDA=OFF"
    cuda=no
  fi
  # What the CUDA backend's attention is made with is in no Debian package; a build without it has a slower one.
  case $preset${cuda:-} in cuda* | bundle) launch/fetch_cudnn_frontend.sh || echo "building without cuDNN's attention" >&2 ;; esac
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" ${cmake_options:-} >/dev/null
  cmake --build --preset "$preset" ${1:+--target "$@"}
}

# mpirun refuses root and more ranks than cores unless told otherwise, and binds ranks to single cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # containers often forbid it
