// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/registry.h"

#include <map>
#include <vector>

#include "data/jinja/filters.h"
#include "data/jinja/tests.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

using FilterTable = std::map<std::string, Filter, std::less<>>;

const FilterTable& filters() {
  static const FilterTable table = [] {
    FilterTable made;
    for (const auto part : {text_filters(), number_filters(), sequence_filters(), selection_filters()}) {
      for (const auto& [name, filter] : part) made.emplace(name, filter);
    }
    return made;
  }();
  return table;
}

std::string unknown(const char* kind, const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  return text("unknown ", kind, " '", name, "'", near.empty() ? "" : "; is '" + near + "' meant?");
}

}  // namespace

Filter find_filter(std::string_view name) {
  const auto found = filters().find(name);
  return found == filters().end() ? nullptr : found->second;
}

std::string unknown_filter(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& entry : filters()) known.push_back(entry.first);
  return unknown("filter", name, known);
}

Test find_test(std::string_view name) {
  for (const auto& [known, test] : all_tests()) {
    if (known == name) return test;
  }
  return nullptr;
}

std::string unknown_test(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& entry : all_tests()) known.emplace_back(entry.first);
  return unknown("test", name, known);
}

}  // namespace duoka::data::jinja
