// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/optimizer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/io/json.h"
#include "support/test_files.h"

namespace duoka::train {
namespace {

at::Tensor to_tensor(const io::Json& values, at::IntArrayRef shape) {
  return at::tensor(values.get<std::vector<float>>()).view(shape);
}

/// A parameter with its slot.
struct Holder {
  Parameter parameter;
  std::vector<Slot> slots;

  Holder(const std::string& name, const at::Tensor& value) : parameter(Parameter::whole(name, value, true)) {
    Slot slot;
    slot.parameter = &parameter;
    slot.offset = parameter.offset;
    slot.master = value.to(parameter.gradient_dtype());
    slot.grad = at::zeros_like(slot.master);
    slots.push_back(slot);
  }
  Holder(const Holder&) = delete;
};

std::unique_ptr<Optimizer> make_optimizer(const io::Json& c) {
  if (c["optim"] == "adamw")
    return make_adamw({c.value("beta1", 0.9), c.value("beta2", 0.999), c.value("epsilon", 1e-8),
                       c.value("weight_decay", 0.0)});
  return make_sgd({c.value("momentum", 0.0), c.value("nesterov", false), c.value("weight_decay", 0.0)});
}

TEST(Optimizer, EqualsTorchStepByStep) {
  const io::Json golden = io::read_json_file(testing::fixture("golden/optimizers.json"));
  for (const io::Json& row : golden["cases"]) {
    const auto optimizer = make_optimizer(row);
    Holder weight("weight", to_tensor(golden["start"]["weight"], {3, 5}));
    Holder bias("bias", to_tensor(golden["start"]["bias"], {5}));
    std::vector<Slot> slots{weight.slots[0], bias.slots[0]};
    optimizer->prepare(slots);
    for (size_t step = 0; step < golden["gradients"].size(); ++step) {
      for (Slot& slot : slots)
        slot.grad.copy_(to_tensor(golden["gradients"][step][slot.parameter->name], slot.grad.sizes()));
      optimizer->step(slots, golden["rates"][step]);
      for (const Slot& slot : slots) {
        const at::Tensor wanted = to_tensor(row["weights"][step][slot.parameter->name], slot.master.sizes());
        EXPECT_TRUE(at::allclose(slot.master, wanted, 1e-6, 1e-7))
            << row["optim"] << " " << slot.parameter->name << " step " << step << "\n"
            << (slot.master - wanted);
      }
    }
  }
}

TEST(AdamW, DecaysMatricesOnlyAndKeepsItsStateInTheSlot) {
  Holder weight("weight", at::ones({2, 2})), norm("norm.weight", at::ones({2}));
  std::vector<Slot> slots{weight.slots[0], norm.slots[0]};
  const auto optimizer = make_adamw({.weight_decay = 0.1});
  optimizer->prepare(slots);
  optimizer->step(slots, 0.1);  // zero gradient: decay is all there is
  EXPECT_TRUE(at::allclose(slots[0].master, at::full({2, 2}, 0.99f)));
  EXPECT_TRUE(at::equal(slots[1].master, at::ones({2})));
  EXPECT_THAT(slots[0].state, ::testing::SizeIs(3));
  EXPECT_EQ(slots[0].state.at("step").item<double>(), 1);
  EXPECT_EQ(slots[0].state.at("exp_avg").sizes(), slots[0].master.sizes());
  EXPECT_EQ(optimizer->state_bytes_per_element(4), 8);

  const DecayGroups groups = count_decay_groups({slots[0].parameter, slots[1].parameter});
  EXPECT_EQ(groups.num_decayed, 1);
  EXPECT_EQ(groups.elements_decayed, 4);
  EXPECT_EQ(groups.elements_not_decayed, 2);
}

/// The numbers of case E07: gradients of 0.0387 on a gain and some other on a matrix; the first AdamW step is
/// lr * sign(gradient) whatever their size.
TEST(AdamW, CaseE07LeavesNormsUndecayed) {
  const io::Json wanted =
      io::read_json_file(testing::fixture("cases/E07_expected.json"))["right_norms_and_biases_not_decayed"];
  Holder norm("model.norm.weight", at::full({1}, wanted["before"][0].get<float>()));
  Holder q("model.layers.0.self_attn.q_proj.weight", at::full({1, 1}, wanted["before"][1].get<float>()));
  std::vector<Slot> slots{norm.slots[0], q.slots[0]};
  slots[0].grad.fill_(wanted["grad_norm_0"].get<double>());
  slots[1].grad.fill_(0.01);
  const auto optimizer = make_adamw({.weight_decay = 0.1});
  optimizer->prepare(slots);
  optimizer->step(slots, 0.1);
  EXPECT_NEAR(slots[0].master.item<double>(), wanted["after_norm_0"].get<double>(), 2e-5);
  EXPECT_NEAR(slots[1].master.item<double>(), wanted["after_q_proj_00"].get<double>(), 2e-5);
}

TEST(AdamW, TakesMixedDtypes) {
  Holder a("a", at::ones({2, 2}, at::kDouble)), b("b", at::ones({2, 2})),
      c("c", at::ones({2, 2}, at::kDouble));
  std::vector<Slot> slots{a.slots[0], b.slots[0], c.slots[0]};
  const auto optimizer = make_adamw({});
  optimizer->prepare(slots);
  for (Slot& slot : slots) slot.grad.fill_(1);
  optimizer->step(slots, 0.1);
  for (const Slot& slot : slots)
    EXPECT_NEAR(slot.master[0][0].item<double>(), 0.9, 1e-6) << slot.parameter->name;
}

TEST(Sgd, CaseE01SmallStepsAddUpUnderABf16Value) {
  Holder weight("weight", at::ones({1}, at::kBFloat16));
  const auto optimizer = make_sgd({});
  optimizer->prepare(weight.slots);
  weight.slots[0].grad.fill_(1);
  for (int i = 0; i < 100; ++i) {
    optimizer->step(weight.slots, 0.001);
    weight.parameter.value.copy_(weight.slots[0].master);  // as Engine::publish()
  }
  const double value = weight.parameter.value.item<double>();
  EXPECT_TRUE(value == 0.8984375 || value == 0.90234375) << value;
}

TEST(Optimizer, RefusesWhatCannotBe) {
  EXPECT_THROW(make_adamw({.beta1 = 1}), ConfigError);
  EXPECT_THROW(make_adamw({.epsilon = -1}), ConfigError);
  EXPECT_THROW(make_sgd({.momentum = -0.1}), ConfigError);
  EXPECT_THAT(testing::message_of<ConfigError>([] { make_sgd({.nesterov = true}); }),
              ::testing::HasSubstr("nesterov with momentum = 0"));
  Holder weight("weight", at::ones({1}));
  EXPECT_THAT(testing::message_of<StateError>([&] { make_adamw({})->step(weight.slots, 0.1); }),
              ::testing::HasSubstr("weight without its exp_avg"));
}

}  // namespace
}  // namespace duoka::train
