// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/json_row.h"
#include "duoka/data/conversation.h"
#include "duoka/data/format.h"

namespace duoka::data {

/// The turns of a list of ShareGPT ({from, value}) or OpenAI ({role, content}) turns. Which of the two is
/// told from the first turn where `format` does not say. Throws DataError with a reason.
std::vector<Message> read_turns(const Located& list, const RowFormat& format);

/// Descriptions of tools as the text of a JSON array: an array, or (LLaMA-Factory) its text; "" for null.
std::string read_tools(const Located& tools);

/// Throws DataError unless the conversation has an assistant turn to learn from.
void check_turns(const std::vector<Message>& turns);

}  // namespace duoka::data
