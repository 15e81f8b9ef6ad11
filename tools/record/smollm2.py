# SPDX-License-Identifier: Apache-2.0
"""What transformers makes of SmolLM2-135M-Instruct in f32: logits, three losses, a greedy reply.

Reads .assets: the GGUF file, jargon.txt, alpaca_en_demo.json and alpaca_zh_demo.json. Token ids are stored, so that
the tests need the model alone. Writes tests/fixtures/golden/smollm2.json. Usage: python -P smollm2.py [ROOT]
(-P: files beside this one have names of packages)
"""

import json
import os
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPTS = {
    "english": "Gravity is the force by which a planet draws objects toward its center.",
    "code": "for (int i = 0; i < n; ++i) {\n    sum += a[i] * b[i];\n}",
    "chinese": "你好，请写一首关于秋天的诗。",
    "chat": "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
}
STRIDE = 2048  # every so many entries of the vocabulary are recorded, and the five largest


def record_logits(model, ids: list) -> list:
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    points = []
    for position in sorted({0, len(ids) // 2, len(ids) - 1}):
        top = logits[position].topk(5).indices.tolist()
        chosen = sorted(set(range(7, logits.shape[1], STRIDE)) | set(top))
        points.append({"position": position, "top": top, "ids": chosen,
                       "logits": [round(logits[position, i].item(), 6) for i in chosen]})
    return points


def mean_loss(model, ids: list) -> float:
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1].double()
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:])).item()


def texts(assets: str) -> dict:
    def path(name):
        return os.path.join(assets, name)

    with open(path("jargon.txt"), "rb") as file:
        jargon = file.read().decode("utf-8", "replace")[300000:304000]
    outputs = {}
    for language in ("en", "zh"):
        with open(path(f"alpaca_{language}_demo.json"), encoding="utf-8") as file:
            outputs[f"alpaca_{language}"] = json.load(file)[0]["output"]
    return {"jargon": jargon, **outputs}


def main(root: str) -> None:
    torch.set_num_threads(1)
    assets = os.path.join(root, ".assets")
    tokenizer = AutoTokenizer.from_pretrained(assets, gguf_file=NAME)
    model = AutoModelForCausalLM.from_pretrained(assets, gguf_file=NAME, dtype=torch.float32,
                                                 attn_implementation="eager")
    prompts, losses = {}, {}
    for name, text in PROMPTS.items():
        ids = tokenizer(text)["input_ids"]
        prompts[name] = {"ids": ids, "points": record_logits(model, ids)}
    for name, text in texts(assets).items():
        ids = tokenizer(text)["input_ids"][:512]
        losses[name] = {"ids": ids, "loss": mean_loss(model, ids)}
        print(name, len(ids), losses[name]["loss"])
    # The token that ends a turn ends the reply; "max_new_tokens" is large enough for both replies.
    greedy = {}
    for name, ids in (("chat", prompts["chat"]["ids"]), ("english", prompts["english"]["ids"])):
        out = model.generate(torch.tensor([ids]), attention_mask=torch.ones((1, len(ids)), dtype=torch.long),
                             max_new_tokens=32, do_sample=False, eos_token_id=2, pad_token_id=2)
        greedy[name] = out[0, len(ids):].tolist()
        print(name, repr(tokenizer.decode(greedy[name])))
    record = {"made_by": "tools/record/smollm2.py", "model": NAME,
              "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
              "prompts": prompts, "losses": losses, "stop_id": 2, "max_new_tokens": 32, "greedy": greedy}
    with open(os.path.join(root, "tests/fixtures/golden/smollm2.json"), "w") as file:
        json.dump(record, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
