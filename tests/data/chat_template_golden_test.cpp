// SPDX-License-Identifier: Apache-2.0
// Renderings against Python Jinja2 as transformers runs it; recorded by tools/record/templates.py.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/data/chat_template.h"
#include "duoka/io/json.h"

namespace duoka::data {
namespace {

using io::Json;

std::filesystem::path folder(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

Json golden(const char* name) { return io::read_json_file(folder("DUOKA_FIXTURES") / "golden" / name); }

/// FNV-1a, 64 bits, as in the recording script.
std::string fnv1a(const std::string& bytes) {
  uint64_t state = 0xCBF29CE484222325u;
  for (const char byte : bytes) state = (state ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(state));
  return hex;
}

Conversation conversation_of(const Json& recorded) {
  Conversation conversation;
  for (Json message : recorded["messages"]) {
    Message made{message["role"], message["content"]};
    message.erase("role");
    message.erase("content");
    if (!message.empty()) made.fields_json = message.dump();
    conversation.messages.push_back(made);
  }
  if (!recorded["tools"].is_null()) conversation.tools_json = recorded["tools"].dump();
  return conversation;
}

ChatTemplate::Variables variables_of(const Json& file, const Json& recorded) {
  ChatTemplate::Variables variables;
  variables.bos_token = file["tokens"]["bos_token"];
  variables.eos_token = file["tokens"]["eos_token"];
  variables.pad_token = file["tokens"]["pad_token"];
  variables.unk_token = file["tokens"]["unk_token"];
  variables.now = file["now"];
  variables.add_generation_prompt = recorded["add_generation_prompt"];
  if (!recorded["extra"].empty()) variables.extra_json = recorded["extra"].dump();
  return variables;
}

struct Outcome {
  std::optional<std::string> text;  ///< Empty where the template fails.
  std::string error;
};

Outcome render(const std::string& source, const std::string& origin, const Json& file, const Json& recorded) {
  try {
    const auto chat_template = ChatTemplate::parse(source, origin);
    return {chat_template.render_text(conversation_of(recorded), variables_of(file, recorded)), ""};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

/// In this template `safe` turns text into Markup, and adding to it makes Jinja2 escape what is added for
/// HTML ("&lt;"), even with escaping off. Here text stays text.
bool is_known_difference(const std::string& name, const std::string& conversation) {
  return name == "meetkai-functionary-medium-v3.1.jinja" &&
         (conversation.starts_with("tool") || conversation == "two_calls");
}

TEST(ChatTemplateGolden, SnippetsRenderAsInPython) {
  const Json file = golden("templates.json");
  const Json& conversation = file["conversations"]["tool_call"];
  ASSERT_GT(file["snippets"].size(), 150u);
  for (const Json& snippet : file["snippets"]) {
    const std::string source = snippet["source"];
    const Outcome outcome = render(source, "snippet", file, conversation);
    if (snippet["text"].is_null()) {
      EXPECT_FALSE(outcome.text) << source << "\n  rendered, but Python says " << snippet["python_says"];
    } else {
      EXPECT_EQ(outcome.text.value_or("ERROR " + outcome.error), snippet["text"]) << source;
    }
  }
}

TEST(ChatTemplateGolden, OwnTemplatesRenderAsInPython) {
  const Json file = golden("templates.json");
  const auto templates = folder("DUOKA_FIXTURES") / "golden" / "templates";
  ASSERT_GE(file["cases"].size(), 50u);
  for (const Json& entry : file["cases"]) {
    const std::string name = entry["template"];
    const Json& conversation = file["conversations"][entry["conversation"].get<std::string>()];
    const Outcome outcome = render(read_file(templates / name), name, file, conversation);
    if (entry["text"].is_null()) {
      EXPECT_FALSE(outcome.text) << name << ", " << entry["conversation"];
    } else {
      EXPECT_EQ(outcome.text.value_or("ERROR " + outcome.error), entry["text"])
          << name << ", " << entry["conversation"];
    }
  }
}

TEST(ChatTemplateGolden, RealTemplatesRenderAsInPython) {
  const auto templates = folder("DUOKA_ASSETS") / "templates";
  if (!std::filesystem::is_directory(templates)) {
    GTEST_SKIP() << "no .assets/templates; scripts/test fetches them";
  }
  const Json file = golden("templates_real.json");
  int num_equal = 0, num_templates = 0;
  for (const Json& entry : file["templates"]) {
    const std::string name = entry["name"];
    const std::string source = read_file(templates / name);
    ASSERT_EQ(fnv1a(source), entry["fnv1a"]) << name << " is not the file that was recorded; fetch it anew";
    bool all_equal = true;
    for (const auto& [conversation, hash] : entry["results"].items()) {
      const Outcome outcome = render(source, name, file, file["conversations"][conversation]);
      if (is_known_difference(name, conversation)) {
        all_equal = false;
        continue;
      }
      const bool is_equal = hash.is_null() ? !outcome.text : outcome.text && fnv1a(*outcome.text) == hash;
      EXPECT_TRUE(is_equal) << name << ", " << conversation
                            << (hash.is_null() ? ": rendered, but Python raises"
                                : outcome.text ? ": another text than Python's"
                                               : ": " + outcome.error);
      all_equal = all_equal && is_equal;
    }
    num_equal += all_equal ? 1 : 0;
    ++num_templates;
  }
  EXPECT_GE(num_templates, 70);
  EXPECT_GE(num_equal, num_templates - 1);
  RecordProperty("equal_templates", num_equal);
  std::printf("%d of %d real templates equal in every conversation\n", num_equal, num_templates);
}

}  // namespace
}  // namespace duoka::data
