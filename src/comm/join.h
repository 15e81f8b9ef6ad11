// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/key_store.h"
#include "duoka/comm/world.h"

namespace duoka::comm {

/// Enters rank `world.rank` into the table in `store` and waits until all `world.size` ranks are there.
/// Throws as connect() does. `name`: who this is, unique among all processes, "host:pid".
void enter_join_table(KeyStore& store, const World& world, const std::string& name,
                      std::chrono::milliseconds timeout);

/// The table, then the wires.
Group join_group(std::shared_ptr<KeyStore> store, const World& world, const std::string& address,
                 const ConnectOptions& options);

/// "host, process 123", with a number that makes it unique within the process.
std::string process_name();

}  // namespace duoka::comm
