// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/unicode.h"

namespace duoka::data {
namespace {

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  const bool is_left_free = begin == 0 || !is_word(last_code_point(text.substr(0, begin)).value);
  const bool is_right_free = end == text.size() || !is_word(first_code_point(text.substr(end)).value);
  return is_left_free && is_right_free;
}

size_t spaces_before(std::string_view text, size_t end) {
  while (end > 0) {
    const CodePoint c = last_code_point(text.substr(0, end));
    if (!is_space(c.value)) break;
    end -= c.size;
  }
  return end;
}

size_t spaces_behind(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const CodePoint c = first_code_point(text.substr(begin));
    if (!is_space(c.value)) break;
    begin += c.size;
  }
  return begin;
}

}  // namespace

const TokenFinder::Node* TokenFinder::child(const Node& node, uint8_t byte) const {
  for (const auto& [label, index] : node.children) {
    if (label == byte) return &nodes_[index];
  }
  return nullptr;
}

void TokenFinder::add(std::string_view pattern, const AddedToken& token) {
  if (pattern.empty()) return;
  is_first_byte_[static_cast<uint8_t>(pattern.front())] = true;
  size_t at = 0;
  for (const char character : pattern) {
    const auto byte = static_cast<uint8_t>(character);
    const Node* next = child(nodes_[at], byte);
    if (next == nullptr) {
      nodes_[at].children.emplace_back(byte, static_cast<uint32_t>(nodes_.size()));
      at = nodes_.size();
      nodes_.emplace_back();
    } else {
      at = static_cast<size_t>(next - nodes_.data());
    }
  }
  nodes_[at].token = &token;
}

std::optional<TokenFinder::Found> TokenFinder::find_at(std::string_view text, size_t begin,
                                                       const MayStand& may_stand) const {
  std::optional<Found> longest;
  const Node* node = &nodes_[0];
  for (size_t i = begin; i < text.size(); ++i) {
    node = child(*node, static_cast<uint8_t>(text[i]));
    if (node == nullptr) break;
    if (node->token != nullptr && (!node->token->is_special || may_stand(begin, i + 1))) {
      longest = Found{node->token, begin, i + 1};
    }
  }
  return longest;
}

std::vector<TokenFinder::Found> TokenFinder::find_all(std::string_view text,
                                                      const MayStand& may_stand) const {
  std::vector<Found> all;
  size_t done = 0;  // where the last match that counts ends, its white space included
  for (size_t i = 0; i < text.size();) {
    auto found = is_first_byte_[static_cast<uint8_t>(text[i])] ? find_at(text, i, may_stand) : std::nullopt;
    if (!found) {
      ++i;
      continue;
    }
    i = found->end;
    const AddedToken& token = *found->token;
    // A match that is refused here still hides what it covers, as in Hugging Face's tokenizers.
    if (token.is_single_word && !stands_alone(text, found->begin, found->end)) continue;
    if (token.strips_left) found->begin = std::max(done, spaces_before(text, found->begin));
    if (token.strips_right) found->end = spaces_behind(text, found->end);
    // A token may begin in white space that the one before has taken; then both are there, as with Hugging
    // Face.
    done = found->end;
    all.push_back(*found);
  }
  return all;
}

}  // namespace duoka::data
