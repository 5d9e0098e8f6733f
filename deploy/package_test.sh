#!/usr/bin/env bash
# Tries a wheel of deploy/package.sh as a user would have it: in a clean virtual environment, with an environment and a
# home of its own. What is checked: its size, what its binaries ask of the host, both orders of import, and a model that
# a first process compiles and a second one gets from the daemon that the first has started.
#
#   deploy/package_test.sh [WHEEL]      # without one, deploy/package.sh makes it
#
# KILN_TORCH is the version of torch (2.11 - 2.14), KILN_PYTHON the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

max_mb=40
torch=torch==${KILN_TORCH:-2.13.0}
# glibc's own libraries.
host_libraries='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt)\.so'

say() { printf 'package_test: %s\n' "$*" >&2; }
die() {
  say "FAIL: $*"
  exit 1
}

# newest PREFIX FILE : the newest version of the symbols that FILE asks for.
newest() { objdump -T "$2" | grep -oE "\($1_[0-9.]+\)" | tr -d '()' | sort -V | tail -n 1; }

check_size() {
  local bytes
  bytes=$(stat -c %s "$wheel")
  say "$(basename "$wheel"): $(awk "BEGIN { printf \"%.1f\", $bytes / 1e6 }") MB"
  ((bytes <= max_mb * 1000000)) || die "larger than $max_mb MB"
}

check_binary() {
  local file=$1 other version
  other=$(ldd "$file" | awk '{ sub(/.*\//, "", $1); print $1 }' | grep -vE "$host_libraries" || true)
  [[ -z $other ]] || die "$file needs" "$other"
  [[ -z $(newest GLIBCXX "$file") ]] || die "$file needs libstdc++"
  version=$(newest GLIBC "$file")
  [[ $(printf '%s\n' "$version" GLIBC_2.36 | sort -V | tail -n 1) == GLIBC_2.36 ]] || die "$file needs $version"
  say "$(basename "$file"): $version, $(ldd "$file" | awk '{ sub(/.*\//, "", $1); printf "%s ", $1 }')"
}

check_exports() {
  local names
  names=$(nm -D --defined-only "$extension" | awk '{ print $3 }')
  [[ $names == PyInit__kiln ]] || die "the extension exports" "$names"
}

# as_user COMMAND... : nothing of this machine's environment. kilnd starts by itself.
as_user() {
  env -C "$home" -i HOME="$home" XDG_RUNTIME_DIR="$home/run" PATH="$home/venv/bin:/usr/bin:/bin" KILN_STRICT=1 "$@"
}

check_imports() {
  as_user python -c 'import torch, kiln._kiln'
  as_user python - "$extension" <<'PY'
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("kiln._kiln", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert "torch" not in sys.modules
import torch

torch.ones(2).sum()
PY
}

# One process: the model's results and gradients are eager's, and `kiln.counters()` says what the argument says.
train() {
  as_user python - "$@" <<'PY'
import re
import sys

import kiln
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8))
x = torch.randn(16, 32, requires_grad=True)


def run(f):
    y = f(x)
    return [y, *torch.autograd.grad(y.square().mean(), [x, *model.parameters()])]


want = run(model)
torch.testing.assert_close(run(torch.compile(model, backend="kiln", options={"strict": True})), want)
counters = kiln.counters()
assert (counters["compiles"], counters["hits"]) == tuple(map(int, sys.argv[1:])), counters
assert counters["kernels"] and not counters["fallbacks"], counters

# What kiln is built of has come with it, not from the host.
libraries = set(re.findall(r"/usr/lib\S*/(lib\w+)\S*", open("/proc/self/maps").read()))
own = re.compile("lib(grpc|gpr|absl|protobuf|upb|re2|cares|rocksdb|LLVM|spdlog|fmt|prometheus|civetweb|sodium|zstd|xml2)")
assert not (of_host := [lib for lib in libraries if own.match(lib)]), of_host
PY
}

# The daemon and its workers, by their program.
daemon_pids() {
  local exe
  for exe in /proc/[0-9]*/exe; do
    [[ $(readlink "$exe") != "$home/venv/bin/kilnd" ]] || { exe=${exe#/proc/} && echo "${exe%/exe}"; }
  done
}

check_daemon_maps() {
  local pid other
  mapfile -t pids < <(daemon_pids)
  ((${#pids[@]} >= 2)) || die "kilnd and a worker should run: ${pids[*]}"
  for pid in "${pids[@]}"; do
    other=$(awk '$6 ~ /\.so/ { sub(/.*\//, "", $6); print $6 }' "/proc/$pid/maps" | sort -u |
      grep -vE "$host_libraries" || true)
    [[ -z $other ]] || die "kilnd ($pid) has loaded" "$other"
  done
  say "kilnd and its workers (${#pids[@]} processes) have loaded nothing but glibc"
}

stop_daemon() {
  local pid
  for pid in $(daemon_pids); do
    kill "$pid" 2>/dev/null || true
    tail --pid="$pid" -f /dev/null
  done
}

wheel=${1:-$(deploy/package.sh)}
# A socket's path has at most 107 bytes.
home=$(mktemp -d -p /tmp)
trap 'stop_daemon; rm -rf "$home"' EXIT
mkdir -m 700 "$home/run"

check_size
say "venv with $torch"
"${KILN_PYTHON:-python3}" -I -m venv "$home/venv"
"$home/venv/bin/python" -m pip install -qq --disable-pip-version-check "$torch" numpy "$wheel" || die "pip install failed"
extension=$(echo "$home"/venv/lib/python3*/site-packages/kiln/_kiln.abi3.so)

for file in "$home/venv/bin/kilnd" "$home/venv/bin/kilnctl" "$extension"; do check_binary "$file"; done
check_exports
check_imports
train 1 0
train 0 1
check_daemon_maps
as_user kilnctl status >/dev/null
as_user kilnctl version >&2
say "passed"
