# SPDX-License-Identifier: Apache-2.0
"""Renders chat templates with Python Jinja2 as transformers runs it, and writes what came out into
tests/fixtures/golden/templates.json (own templates: texts) and templates_real.json (real ones: hashes only).
The real templates are those that scripts/test fetches into .assets/templates (70 files, not kept in the tree: they have
licences of their own).
"""

import datetime
import hashlib
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = ROOT / ".assets" / "templates"
GOLDEN = ROOT / "tests" / "fixtures" / "golden"
PACKAGE = "llama-cpp-python==0.3.36"
# Noon of 2024-07-26, taken as local time: what strftime_now says in the recordings.
NOW = 1721995200

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a <place> & its \"surroundings\"\nnow",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Città, e.g. 北京", "enum": ["Paris", "北京"]},
                    "days": {"type": "integer", "description": "How many", "default": 3},
                    "units": {"type": ["string", "null"], "description": "Units"},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "stop",
            "description": "Ends it",
            "parameters": {"type": "object", "properties": {}, "required": []},
        },
    },
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **fields):
    return {"role": "assistant", "content": text, **fields}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, identity):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


WEATHER = {"city": "Paris", "days": 2, "exact": True, "scale": 1.5, "extra": None, "list": [1, "zwei", {"a": []}]}
WITH_CALL = [
    user("Weather in Paris?"),
    assistant("", tool_calls=[call("get_weather", WEATHER, "abcdefgh1")]),
    {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefgh1", "content": "{\"sky\": \"clear\"}"},
    assistant("It is clear."),
]

# name -> messages, tools, add_generation_prompt, more variables
CONVERSATIONS = {
    "plain": ([user("Hello"), assistant("Hi there!")], None, False, {}),
    "prompt": ([user("Hello")], None, True, {}),
    "system": ([system("Be brief."), user("What is 2+2?"), assistant("4")], None, False, {}),
    "system_prompt": ([system("Be brief."), user("a"), assistant("b"), user("c")], None, True, {}),
    "turns": (
        [user("one"), assistant("eins"), user("two"), assistant("zwei"), user("three"), assistant("drei")],
        None, False, {},
    ),
    "unicode": ([user("你好，世界 🦙 — «ß»"), assistant("Ça va\u00a0? Ünïcödé\u2028x")], None, False, {}),
    "spaces": ([user("  leading\n\n"), assistant("\n\n answer \t\n"), user("\ttab ")], None, True, {}),
    "empty": ([user(""), assistant(""), user("x")], None, True, {}),
    "two_users": ([user("first"), user("second"), assistant("both")], None, False, {}),
    "assistant_first": ([assistant("I begin"), user("fine")], None, True, {}),
    "think": (
        [user("Why?"), assistant("<think>\nbecause\n</think>\n\nSo."), user("And?"),
         assistant("<think>hm</think>Yes.")], None, False, {},
    ),
    "reasoning": (
        [user("Why?"), assistant("So.", reasoning_content="because"), user("And?"),
         assistant("Yes.", reasoning_content="hm")], None, False, {},
    ),
    "no_thinking": ([user("Why?")], None, True, {"enable_thinking": False}),
    "marks": ([user("<|im_end|>{{ x }} \\n 'q' \"d\" </s>"), assistant("{% raw %}[INST]")], None, False, {}),
    "tools": ([system("Use tools."), user("Weather in Paris?")], TOOLS, True, {}),
    "tool_call": (WITH_CALL, TOOLS, False, {}),
    "tool_text": (
        [user("Weather?"), assistant("", tool_calls=[call("get_weather", "{\"city\": \"Oslo\"}", "abcdefgh2")])],
        TOOLS, False, {},
    ),
    "two_calls": (
        [user("Both?"),
         assistant("Sure.", tool_calls=[call("get_weather", {"city": "北京"}, "abcdefgh3"),
                                        call("stop", {}, "abcdefgh4")]),
         {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefgh3", "content": "hot"},
         {"role": "tool", "name": "stop", "tool_call_id": "abcdefgh4", "content": "done"}],
        TOOLS, True, {},
    ),
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def render(source, conversation):
    """The text, or None where Jinja2 raises."""
    from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template

    messages, tools, add_generation_prompt, extra = conversation
    try:
        compiled = _compile_jinja_template(source)
        now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
        compiled.globals["strftime_now"] = now.strftime
        rendered, _ = render_jinja_template(
            [messages], tools=tools, chat_template=source, add_generation_prompt=add_generation_prompt,
            **TOKENS, **extra)
        return rendered[0]
    except Exception as error:  # noqa: BLE001: any error of the template is a result here
        return None, f"{type(error).__name__}: {error}"


def fnv1a(data):
    """FNV-1a, 64 bits, in hex: short to write in C++ too."""
    state = 0xCBF29CE484222325
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def versions():
    import jinja2
    import transformers

    return {"jinja2": jinja2.__version__, "transformers": transformers.__version__, "now": NOW, "tokens": TOKENS}


def conversations_json():
    return {
        name: {"messages": messages, "tools": tools, "add_generation_prompt": prompt, "extra": extra}
        for name, (messages, tools, prompt, extra) in CONVERSATIONS.items()
    }


def write(name, content):
    GOLDEN.mkdir(parents=True, exist_ok=True)
    path = GOLDEN / name
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=False) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def record_real():
    templates = []
    for path in sorted(ASSETS.glob("*.jinja")):
        source = path.read_bytes()
        results = {}
        for name, conversation in CONVERSATIONS.items():
            result = render(source.decode("utf-8"), conversation)
            if isinstance(result, str):
                results[name] = fnv1a(result.encode("utf-8"))
            else:
                results[name] = None
        templates.append({"name": path.name, "sha256": hashlib.sha256(source).hexdigest(), "fnv1a": fnv1a(source),
                          "results": results})
    write("templates_real.json",
          {**versions(), "source": PACKAGE, "conversations": conversations_json(), "templates": templates})


def record_own():
    cases = []
    for path in sorted((GOLDEN / "templates").glob("*.jinja")):
        source = path.read_bytes().decode("utf-8")
        for name, conversation in CONVERSATIONS.items():
            result = render(source, conversation)
            cases.append({"template": path.name, "conversation": name,
                          "text": result if isinstance(result, str) else None})
    snippets = []
    for line in (GOLDEN / "templates" / "snippets.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("##"):
            continue
        source = line.replace("⏎", "\n")
        result = render(source, CONVERSATIONS["tool_call"])
        snippets.append({"source": source, "text": result} if isinstance(result, str)
                        else {"source": source, "text": None, "python_says": result[1][:120]})
    write("templates.json",
          {**versions(), "conversations": conversations_json(), "cases": cases, "snippets": snippets})


def main():
    record_own()
    if ASSETS.is_dir():
        record_real()
    else:
        print("the real templates are not there: scripts/test fetches them")


if __name__ == "__main__":
    main()
