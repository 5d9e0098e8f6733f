#!/usr/bin/env bash
# Brings a Debian 12 machine and this tree to the point where kiln runs: system packages, a Python environment in
# .venv with torch, the binaries and the `kiln` package in it. May be run again at any time: what is up to date is
# left alone.
#
#   deploy/install.sh               all of it
#   deploy/install.sh --no-build    only what a build needs
#
# KILN_PYTHON names the interpreter for .venv (3.10 - 3.14, with venv and Python.h); by default python3 on PATH if it
# will do, else Debian's.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
venv=$root/.venv

apt_packages=(
  # build
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib git
  clang-19 lld-19 llvm-19-dev liblld-19-dev libclang-rt-19-dev clang-format-19 g++
  # libraries
  libabsl-dev libcli11-dev libfmt-dev libgmock-dev libgrpc++-dev libgtest-dev libprotobuf-dev librocksdb-dev
  libjemalloc2 libsodium-dev libspdlog-dev libzstd-dev prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc
  # what the static link (--config=release) needs besides
  libbz2-dev libc-ares-dev liblz4-dev libsnappy-dev libxml2-dev zlib1g-dev
  # Python
  python3 python3-dev python3-venv
)

# What deploy/archives.sh needs besides. No compile reads it, so it is not in the name of the disk cache.
apt_tools=(dpkg-dev)

# transformers is for the model tests; of what it asks for, only its core imports are installed. NVIDIA's two are ptxas
# and libdevice, which kilnd finds beside itself: code for GPUs is made and tested without one.
pip_packages=(
  torch==2.13.0 numpy setuptools wheel pytest expecttest ruff mypy
  tokenizers huggingface_hub safetensors regex pyyaml tqdm packaging filelock "protobuf>=4.21"
)
pip_no_deps=(transformers==5.24.0 nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88)

# Those of them that exist in the tree are built and installed.
binaries=(//server:kilnd //client/cli:kilnctl //compiler/tools:kiln-opt //compiler/tools:kiln-html)
extension=//client/cpp:_kiln.abi3.so

say() { printf 'install: %s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# hash_of WORD... : a short digest of the words.
hash_of() { printf '%s\0' "$@" | sha256sum | cut -c1-16; }

# Copies only a changed file, and in one step: a running daemon keeps the file that it was started from.
put() {  # put FROM TO
  if ! cmp -s "$1" "$2"; then
    cp -f "$1" "$2.new" && chmod u+w "$2.new" && mv -f "$2.new" "$2"
  fi
}

install_apt_packages() {
  local missing=() p
  for p in "${apt_packages[@]}" "${apt_tools[@]}"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
  done
  ((${#missing[@]})) || return 0
  local sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "these packages are missing, and installing them needs root: ${missing[*]}"
    sudo=(sudo)
  fi
  say "apt: ${missing[*]}"
  "${sudo[@]}" apt-get update -q >&2 || say "apt-get update failed; trying the lists that are here"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2 ||
    die "apt-get install failed (kiln is built on Debian 12)"
}

python_will_do() {
  "$1" -I - 2>/dev/null <<'PY'
import os, sys, sysconfig
import ensurepip, venv
ok = (3, 10) <= sys.version_info[:2] <= (3, 14)
sys.exit(not (ok and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))))
PY
}

# The base interpreter, as a real path: a venv made by another venv's Python would follow that one's fate.
choose_python() {
  local p
  for p in "${KILN_PYTHON:-python3}" /usr/bin/python3; do
    if command -v "$p" >/dev/null && python_will_do "$p"; then
      "$p" -I -c 'import sys; print(sys._base_executable)'
      return
    fi
    [[ -z ${KILN_PYTHON:-} ]] || die "KILN_PYTHON=$KILN_PYTHON: not Python 3.10 - 3.14 with venv and Python.h"
  done
  die "no Python 3.10 - 3.14 with venv and Python.h"
}

install_venv() {
  local python want
  python=$(choose_python)
  want=$(hash_of "$root" "$python" "$("$python" -I -V)" "${pip_packages[@]}" -- "${pip_no_deps[@]}")
  [[ $(cat "$venv/.kiln-venv" 2>/dev/null) != "$want" ]] || return 0
  say "venv: $venv with $python (torch and friends; this takes a minute)"
  rm -f "$venv/.kiln-venv"
  "$python" -I -m venv --clear "$venv"
  local pip=("$venv/bin/python" -m pip install -qq --disable-pip-version-check)
  "${pip[@]}" "${pip_packages[@]}" || die "pip install failed"
  "${pip[@]}" --no-deps "${pip_no_deps[@]}" || die "pip install failed"
  echo "$want" >"$venv/.kiln-venv"
}

# What of the build depends on this machine. An action's key does not cover the compiler and /usr/include, so the
# disk cache is named after the versions of the packages they come from.
write_bazelrc() {
  local versions cpus mem_gib
  versions=$(dpkg-query -W -f '${Package} ${Version}\n' "${apt_packages[@]}" libstdc++-12-dev libc6-dev 2>/dev/null)
  cpus=$(nproc)
  mem_gib=$(($(awk '/^MemTotal/ {print $2}' /proc/meminfo) / 1024 / 1024))
  # The largest compile takes half a GB; leave room for the links and the JVM.
  if ((cpus > mem_gib / 2)); then cpus=$((mem_gib / 2 > 1 ? mem_gib / 2 : 1)); fi
  {
    echo "# Written by deploy/install.sh."
    echo "build --repo_env=KILN_PYTHON=$venv/bin/python"
    echo "build --disk_cache=~/.cache/kiln-bazel/$(hash_of "$versions")"
    echo "build --jobs=$cpus --local_cpu_resources=$cpus"
    if [[ ! -w /dev/shm ]] || (($(df --output=avail -m /dev/shm | tail -n 1) < 512)); then
      echo "# /dev/shm is too small for the sandboxes."
      echo "build --sandbox_base="
    fi
  } >.bazelrc.user.new
  if cmp -s .bazelrc.user.new .bazelrc.user; then rm .bazelrc.user.new; else mv .bazelrc.user.new .bazelrc.user; fi
}

build() {
  local targets bin label name
  mapfile -t targets < <(bazel query --keep_going "set(${binaries[*]} $extension)" 2>/dev/null)
  ((${#targets[@]})) || return 0
  say "bazel build ${targets[*]}"
  bazel build --noshow_progress --ui_event_filters=-info,-stdout --show_result=0 "${targets[@]}" ||
    die "the build failed"
  bin=$(bazel info bazel-bin 2>/dev/null)
  for label in "${targets[@]}"; do
    name=${label##*:}
    local from=$bin/${label#//}
    from=${from/://}
    if [[ $label == "$extension" ]]; then
      mkdir -p client/python/kiln
      put "$from" "client/python/kiln/$name"
    else
      put "$from" "$venv/bin/$name"
    fi
  done
}

# protoc names modules after the path given to it, proto/x.proto; in the package they are kiln.proto.x_pb2.
generate_python_protos() {
  local out=client/python/kiln/proto want f
  [[ -d client/python/kiln ]] || return 0
  want=$(cat proto/*.proto "$0" | sha256sum)
  [[ $(cat $out/.stamp 2>/dev/null) != "$want" ]] || return 0
  rm -rf $out
  mkdir -p $out
  protoc -I. --python_out=client/python/kiln proto/*.proto
  for f in "$out"/*_pb2.py; do sed -i -E 's/^from proto import /from kiln.proto import /' "$f"; done
  echo '"""Messages generated from proto/ by deploy/install.sh."""' >$out/__init__.py
  echo "$want" >$out/.stamp
}

install_package() {
  [[ -f client/python/pyproject.toml ]] || return 0
  local want
  want=$(hash_of "$(cat client/python/pyproject.toml "$venv/.kiln-venv")")
  [[ $(cat "$venv/.kiln-package" 2>/dev/null) != "$want" ]] || return 0
  say "pip install -e client/python"
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation \
    -e client/python || die "installing the kiln package failed"
  echo "$want" >"$venv/.kiln-package"
}

build=true
case $* in
  "") ;;
  --no-build) build=false ;;
  *) die "usage: deploy/install.sh [--no-build]" ;;
esac

install_apt_packages
install_venv
write_bazelrc
! $build || build
generate_python_protos
! $build || install_package
