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
