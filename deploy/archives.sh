#!/usr/bin/env bash
# Makes the archives that --config=release links and that Debian's packages lack: abseil, protobuf and re2 as code for
# shared objects (Debian's archives are for executables only), prometheus-cpp and civetweb (Debian has no archive).
# Their sources are Debian's own, of the very version whose headers are installed. Prints the folder, which is kept:
# made in some minutes, found at once the next time.
#
#   deploy/archives.sh      # bazel build --config=release --linkopt=-L"$(deploy/archives.sh)" ...
#
# KILN_JOBS: compiles at a time, by default one a processor.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/kiln-archives
cc=clang-19
cxx=clang++-19
# -fclang-abi-compat: see .bazelrc. Hidden: what is linked into the Python extension is its own.
flags=(-O2 -DNDEBUG -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -w)
cxx_flags=(-std=c++17 -fclang-abi-compat=17 "${flags[@]}")

# What is compiled here, by the package with the headers.
rebuilt=(libabsl-dev libprotobuf-dev libre2-dev prometheus-cpp-dev libcivetweb-dev)
# Whose archives or headers are taken as they are. A new version of any is another folder, so that Bazel links again: it
# does not know what a -l: names.
as_they_are=(
  libbz2-dev libc-ares-dev libcli11-dev libfmt-dev libgrpc++-dev libgrpc-dev liblld-19-dev liblz4-dev librocksdb-dev
  libsnappy-dev libsodium-dev libspdlog-dev libssl-dev libstdc++-12-dev libzstd-dev llvm-19-dev zlib1g-dev
)

say() { printf 'archives: %s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# sources : name=version of each source package, once.
sources() { dpkg-query -W -f '${source:Package}=${source:Version}\n' "${rebuilt[@]}" | sort -u; }

folder() {
  {
    sources
    dpkg-query -W -f '${Package} ${Version}\n' "${as_they_are[@]}"
    "$cc" --version
    cat "$0"
  } | sha256sum | cut -c1-16
}

# Debian's sources by the machine's own list of mirrors, beside apt's lists: nothing on the machine changes.
fetch() {
  local work=$1 entry from
  mkdir -p "$work/sources" "$work/lists/partial"
  local apt=(
    apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources"
    -o Dir::State::Lists="$work/lists" -o APT::Sandbox::User="$(id -un)"
  )
  # shellcheck disable=SC2016
  for entry in $(apt-get indextargets --format '$(SOURCESENTRY)' 'Created-By: Packages' 'Origin: Debian' | sort -u); do
    from=${entry%:*}
    sed -E 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$from" >"$work/sources/${from##*/}"
  done
  "${apt[@]}" update >&2 || die "apt-get update of the source lists failed"
  mapfile -t names < <(sources)
  (cd "$work" && "${apt[@]}" source "${names[@]}" >&2) ||
    die "apt-get source failed; are the installed packages the newest ones? ${names[*]}"
  rm -rf "$work"/*/.pc  # the patched files as they were before
}

# object FOLDER SOURCE COMMAND... : the object's name is the source's path, as base names recur.
object() { "${@:3}" -c "$2" -o "$1/${2//\//_}.o"; }
export -f object

# compile DIR ARCHIVE COMMAND... : the sources named on standard input, relative to DIR, so that no object holds a path
# of this machine.
compile() {
  local dir=$1 archive=$2 objects
  shift 2
  say "$(basename "$archive")"
  objects=$(mktemp -d -p "$work")
  (
    cd "$dir"
    # shellcheck disable=SC2016
    LC_ALL=C sort | xargs -P "${KILN_JOBS:-$(nproc)}" -I{} bash -c 'object "$@"' _ "$objects" {} "$@"
  ) || die "compiling $(basename "$archive") failed"
  (cd "$objects" && find . -name '*.o' | LC_ALL=C sort | xargs ar crD "$archive")
}

# as_in DIR ARCHIVE... : the sources under DIR whose objects Debian's own archives have; those left out are tests.
as_in() {
  local dir=$1 members
  shift
  members=$(for a in "$@"; do ar t "$a"; done | sed -E 's/(\.cc)?\.o$//' | sort -u)
  (cd "$dir" && find . -name '*.cc' -printf '%P\n') |
    awk -v members="$members" 'BEGIN { split(members, a, "\n"); for (i in a) is[a[i]] }
      { n = $0; sub(/.*\//, "", n); sub(/\.cc$/, "", n); if (n in is) print }'
}

build() {
  local out=$1 lib tables=(perl_groups.o unicode_casefold.o unicode_groups.o)
  lib=$(dirname "$("$cc" -print-file-name=libprotobuf.a)")
  as_in "$work"/abseil-*/ "$lib"/libabsl_*.a |
    compile "$work"/abseil-*/ "$out/libabsl.a" "$cxx" "${cxx_flags[@]}" -I.
  # protoc's generators have namesakes of the library's files.
  as_in "$work"/protobuf-*/src "$lib/libprotobuf.a" | grep -vE '/compiler/.*/' |
    compile "$work"/protobuf-*/src "$out/libprotobuf.a" "$cxx" "${cxx_flags[@]}" -I. -DHAVE_PTHREAD -DHAVE_ZLIB
  as_in "$work"/re2-*/ "$lib/libre2.a" |
    compile "$work"/re2-*/ "$out/libre2.a" "$cxx" "${cxx_flags[@]}" -I.
  # Tables, generated from what another package has. Debian's objects will do: data is the same in both kinds of code.
  (cd "$work" && ar x "$lib/libre2.a" "${tables[@]}" && ar rD "$out/libre2.a" "${tables[@]}")
  (cd "$work"/prometheus-cpp-*/ && find core/src pull/src -name '*.cc') |
    compile "$work"/prometheus-cpp-*/ "$out/libprometheus-cpp.a" "$cxx" "${cxx_flags[@]}" -Icore/src -Ipull/src \
      -DHAVE_ZLIB
  # Metrics are served as plain text; neither files nor programs are.
  local civetweb=(-Iinclude -DNO_SSL -DNO_CGI -DNO_FILES -DUSE_WEBSOCKET -DUSE_STACK_SIZE=102400)
  printf '%s\n' src/civetweb.c src/CivetServer.cpp |
    compile "$work"/civetweb-*/ "$out/libcivetweb.a" "$cc" "${flags[@]}" -fclang-abi-compat=17 "${civetweb[@]}"
}

# licenses OUT : what each library's licence says, for whoever ships it.
licenses() {
  local package
  mkdir "$1/licenses"
  for package in "${rebuilt[@]}" "${as_they_are[@]}"; do cp "/usr/share/doc/$package/copyright" "$1/licenses/$package"; done
}

dir=$cache/$(folder)
if [[ ! -e $dir ]]; then
  command -v dpkg-source >/dev/null || die "dpkg-source is missing: apt-get install dpkg-dev"
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache" tmp.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/out"
  fetch "$work"
  build "$work/out"
  licenses "$work/out"
  # The toolchain asks for -lstdc++; here only the archive answers.
  ln -s "$("$cc" -print-file-name=libstdc++.a)" "$work/out/libstdc++.a"
  mv -T "$work/out" "$dir" 2>/dev/null || [[ -e $dir ]]
fi
echo "$dir"
