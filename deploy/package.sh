#!/usr/bin/env bash
# Makes the wheel that users install: kilnd, kilnctl and the `kiln` package, with every library but glibc's linked in, for
# any x86-64 Linux with glibc 2.36 and Python 3.10 or newer. Prints its path. The same tree gives the same bytes.
#
#   deploy/package.sh [FOLDER]      # by default dist
#
# deploy/package_test.sh tries it. SOURCE_DATE_EPOCH is the time that its files carry, by default 1980.
set -euo pipefail
cd "$(dirname "$0")/.."

tag=cp310-abi3-manylinux_2_36_x86_64
programs=(//server:kilnd //client/cli:kilnctl)
extension=//client/cpp:_kiln.abi3.so
# The oldest time that a zip file can say.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800}

say() { printf 'package: %s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# built LABEL : the file that Bazel made of it.
built() {
  local path=${1#//}
  echo "$bin/${path/://}"
}

build() {
  say "bazel build --config=release ${programs[*]} $extension"
  local release=(--config=release --linkopt=-L"$archives")
  bazel build "${release[@]}" --noshow_progress --ui_event_filters=-info,-stdout --show_result=0 \
    "${programs[@]}" "$extension" >&2 || die "the build failed"
  bin=$(bazel info "${release[@]}" bazel-bin 2>/dev/null)
}

# The package as setuptools wants it, without what a developer's install has put beside the sources.
stage() {
  mkdir "$work/src"
  (
    cd client/python
    find kiln \( -name '*.py' -o -name py.typed \) -print0 | xargs -0 cp --parents -t "$work/src" pyproject.toml
  )
  cp "$(built "$extension")" "$work/src/kiln/"
}

# setuptools writes the metadata; it knows neither of programs that are not scripts, nor of the tag.
make_wheel() {
  local python=.venv/bin/python tree info label
  "$python" -m pip wheel -qq --disable-pip-version-check --no-deps --no-build-isolation -w "$work" "$work/src" >&2
  "$python" -m wheel unpack --dest "$work/tree" "$work"/kiln-*.whl >/dev/null
  tree=$(echo "$work"/tree/kiln-*)
  info=$(echo "$tree"/*.dist-info)
  mkdir "${info%.dist-info}.data"
  mkdir "${info%.dist-info}.data/scripts"
  for label in "${programs[@]}"; do cp "$(built "$label")" "${info%.dist-info}.data/scripts/"; done
  cp -r "$archives/licenses" "$info/licenses"
  sed -i -e "s/^Root-Is-Purelib: .*/Root-Is-Purelib: false/" -e "s/^Tag: .*/Tag: $tag/" "$info/WHEEL"
  chmod -R u=rwX,go=rX "$tree"
  "$python" -m wheel pack --dest-dir "$work" "$tree" >/dev/null
}

folder=${1:-dist}
deploy/install.sh --no-build
archives=$(deploy/archives.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build
stage
make_wheel
mkdir -p "$folder"
mv "$work"/kiln-*-"$tag".whl "$folder/"
echo "$folder"/kiln-*-"$tag".whl
