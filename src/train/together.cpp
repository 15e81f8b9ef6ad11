// SPDX-License-Identifier: Apache-2.0
#include "train/together.h"

#include <exception>
#include <string>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::train {

void together(const comm::Group& group, const std::function<void()>& body) {
  std::exception_ptr own;
  std::string message;
  try {
    body();
  } catch (const std::exception& error) {
    own = std::current_exception();
    message = text("failed: ", error.what());
  }
  const auto messages = comm::all_gather_text(message, group);
  if (own) std::rethrow_exception(own);
  for (size_t rank = 0; rank < messages.size(); ++rank)
    if (!messages[rank].empty()) throw SystemError(text("rank ", rank, " ", messages[rank]));
}

}  // namespace duoka::train
