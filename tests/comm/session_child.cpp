// SPDX-License-Identifier: Apache-2.0
// A program as a user of the library writes it, for session_test.cpp: session_child [fail] [--cards N].
#include <cstdio>
#include <string>

#include <ATen/ATen.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/session.h"
#include "duoka/core/error.h"

int main(int argc, char** argv) {
  return duoka::comm::run_main(argc, argv, [&](const duoka::comm::Session& session) {
    if (argc > 1 && std::string(argv[1]) == "fail" && session.world().rank == 1)
      throw duoka::DataError("rows.jsonl:7: no closing brace");
    at::Tensor x = at::full({1}, session.group().rank() + 1, at::device(session.device()).dtype(at::kLong));
    duoka::comm::all_reduce(x, duoka::comm::Op::sum, session.group());
    if (session.is_first())
      std::printf("%d ranks on %s, sum %ld, %d arguments\n", session.group().size(),
                  session.device().str().c_str(), x.item<int64_t>(), argc - 1);
  });
}
