#!/usr/bin/env bash
# What needs a GPU: the tests, compute-sanitizer over the kernel tests, the benchmarks. With a Python that has PyTorch
# with CUDA, kiln (deploy/package.sh's wheel), transformers, timm and pytest.
#
#   tests/gpu/run.sh [--python PYTHON] [--quick]      # --quick: the tests alone
#
# Results go to tests/gpu/results*.json, with device, driver, torch and date. Exit status 1 if anything failed.
set -uo pipefail
cd "$(dirname "$0")/../.."

python=python3
quick=false
while (($#)); do
  case $1 in
    --python)
      python=$2
      shift
      ;;
    --quick) quick=true ;;
    *)
      echo "usage: tests/gpu/run.sh [--python PYTHON] [--quick]" >&2
      exit 2
      ;;
  esac
  shift
done

failed=0
step() {
  printf '\n== %s\n' "$*"
  "$@" || failed=1
}

step "$python" -m pytest -q tests/gpu/test_cuda.py
if ! $quick; then
  kernels=${KILN_GPU_KERNELS:-}
  if [[ -n $kernels ]]; then # assemble.py's, made where kiln-opt is
    for tool in memcheck racecheck initcheck; do
      step compute-sanitizer --error-exitcode 1 --tool "$tool" "$python" tests/gpu/kernels.py "$kernels" --check
    done
    step "$python" tests/gpu/kernels.py "$kernels" --out tests/gpu/results.json
  fi
  step "$python" tests/gpu/train.py --out tests/gpu/results.train.json
fi
exit "$failed"
