#!/usr/bin/env bash
# Builds kiln and runs all its tests. The last line is "N passed, N failed"; the exit status is 0 if nothing failed.
#
#   deploy/test.sh          unit tests, linters, the Python tests
#   deploy/test.sh --all    also: ASan+UBSan, TSan, a minute of each fuzz target, the performance tests, the wheel
#
# Every case counts: gtest's, pytest's, and one for each linter. A target that does not build is one failed case.
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
for arg in "$@"; do
  case $arg in
    --all) all=true ;;
    *)
      echo "usage: deploy/test.sh [--all]" >&2
      exit 2
      ;;
  esac
done

fuzz_seconds=60
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

say() { printf '\n== %s\n' "$*"; }

# step NAME COMMAND... : one case, passed if the command succeeds. What counts its own cases is not run by this.
step() {
  local name=$1 status=0
  shift
  say "$name"
  "$@" || status=$?
  echo "$status" >"$results/$name.step"
}

# suite NAME ARGS... : `bazel test`, with a build event log from which the cases are counted.
suite() {
  local name=$1 status=0
  shift
  say "bazel test ($name)"
  bazel test --keep_going --noshow_progress --ui_event_filters=-info --test_summary=terse \
    --build_event_json_file="$results/$name.bep" "$@" || status=$?
  [[ $status != 4 ]] || status=0  # no tests
  echo "$status" >"$results/$name.bep.status"
}

# python_suite NAME ARGS... : pytest.
python_suite() {
  local name=$1 status=0
  shift
  say "pytest ($name)"
  .venv/bin/python -m pytest --junitxml="$results/$name.xml" "$@" || status=$?
  [[ $status != 5 ]] || status=0  # no tests
  echo "$status" >"$results/$name.xml.status"
}

fuzz_all() {
  local label bin corpus seeds
  local -a targets
  mapfile -t targets < <(bazel query --noshow_progress 'attr(tags, "[\[ ]fuzz[,\]]", tests(//...))' 2>/dev/null)
  ((${#targets[@]})) || return 0
  say "fuzz targets"
  bazel build --config=fuzz --noshow_progress --ui_event_filters=-info,-stdout --show_result=0 "${targets[@]}" || {
    echo 1 >"$results/fuzz-build.step"
    return 0
  }
  bin=$(bazel info --config=fuzz bazel-bin 2>/dev/null)
  for label in "${targets[@]}"; do
    label=${label#//}
    corpus=$results/corpus/$label
    mkdir -p "$corpus"
    # A corpus, if there is one, is the folder `corpus` of the target's package.
    seeds=${label%%:*}/corpus
    [[ -d $seeds ]] || seeds=
    step "fuzz-${label//[\/:]/-}" "$bin/${label/://}" -max_total_time=$fuzz_seconds -rss_limit_mb=4096 \
      -artifact_prefix="$PWD/" -print_final_stats=1 "$corpus" ${seeds:+"$seeds"}
  done
}

deploy/install.sh || {
  echo "0 passed, 1 failed"
  exit 1
}
export KILN_VERIFY=1 PATH=$PWD/.venv/bin:$PATH

suite unit //...

python_dirs=()
for dir in client/python tests deploy; do
  [[ -z $(find "$dir" -name '*.py' -print -quit 2>/dev/null) ]] || python_dirs+=("$dir")
done
step ruff .venv/bin/ruff check "${python_dirs[@]}"
[[ ! -f client/python/kiln/__init__.py ]] || step mypy .venv/bin/mypy client/python/kiln

pytest_dirs=()
for dir in tests client/python; do [[ ! -d $dir ]] || pytest_dirs+=("$dir"); done
((!${#pytest_dirs[@]})) || python_suite python --ignore=tests/perf "${pytest_dirs[@]}"

if $all; then
  suite asan --config=asan --build_tests_only //...
  suite tsan --config=tsan --build_tests_only //...
  fuzz_all
  step plan_scaling bazel run --noshow_progress --ui_event_filters=-info //tests/perf:plan_scaling
  step overhead .venv/bin/python tests/client/bench_overhead.py --inductor
  step training_steps .venv/bin/python tests/perf/models.py
  step package deploy/package_test.sh
fi

echo
.venv/bin/python deploy/count_results.py "$results"
