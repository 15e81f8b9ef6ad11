// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/group.h"

#include <utility>

#include "comm/wires.h"

namespace duoka::comm {

struct Group::State {
  std::string axis = "solo";
  std::shared_ptr<Wires> wires;
  Traffic traffic;
};

Group::Group() : state_(std::make_shared<State>()) {}

Group::Group(std::string axis, std::shared_ptr<Wires> wires) : Group() {
  state_->axis = std::move(axis);
  state_->wires = std::move(wires);
}

int Group::rank() const { return state_->wires ? state_->wires->rank() : 0; }
int Group::size() const { return state_->wires ? state_->wires->size() : 1; }
const std::string& Group::axis() const { return state_->axis; }
Traffic& Group::traffic() const { return state_->traffic; }
Group Group::renamed(std::string axis) const { return {std::move(axis), state_->wires}; }
Wires* Group::wires() const { return state_->wires.get(); }

std::chrono::milliseconds Group::timeout() const {
  return state_->wires ? state_->wires->timeout() : std::chrono::milliseconds::zero();
}

std::string Group::transport() const { return state_->wires ? state_->wires->transport() : "none"; }

}  // namespace duoka::comm
