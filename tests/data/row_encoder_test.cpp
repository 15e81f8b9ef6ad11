// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/row_encoder.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tiny_tokenizer.h"
#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka::data {
namespace {

using duoka::testing::message_of;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class RowEncoderTest : public ::testing::Test {
 protected:
  RowOutcome encode(const RowContent& content, const EncodeRules& rules) const {
    return tiny_.encoder(rules).encode(content);
  }
  static EncodeRules text_rules(int64_t cutoff = 2048, bool is_chunking = false) {
    EncodeRules rules = TinyData::rules(cutoff, Stage::pt);
    rules.is_chunking = is_chunking;
    return rules;
  }
  static Conversation chat() {
    return {
        {{"user", "the cat"}, {"assistant", "sat on the mat"}, {"user", "the dog"}, {"assistant", "ran"}}};
  }
  TinyData tiny_;
};

TEST_F(RowEncoderTest, TextHasBosTheTextAndEos) {
  const RowOutcome outcome = encode(std::string("the cat sat"), text_rules());
  ASSERT_EQ(outcome.rows.size(), 1u);
  const EncodedRow& row = outcome.rows[0];
  std::vector<int32_t> wanted = tiny_.tokenizer().encode("the cat sat").ids;
  if (wanted.back() != tiny_.tokenizer().eos_id()) wanted.push_back(*tiny_.tokenizer().eos_id());
  EXPECT_THAT(row.ids, ElementsAreArray(wanted));
  EXPECT_EQ(row.labels[0], -100);
  EXPECT_TRUE(std::equal(row.labels.begin() + 1, row.labels.end(), row.ids.begin() + 1));
  EXPECT_EQ(outcome.full_tokens, static_cast<int64_t>(wanted.size()));
  EXPECT_FALSE(outcome.was_cut);
  EXPECT_TRUE(outcome.refusal.empty());
}

TEST_F(RowEncoderTest, ATypedBosIsNotDoubled) {
  const std::string bos = tiny_.tokenizer().bos_token();
  ASSERT_FALSE(bos.empty());
  const RowOutcome plain = encode(std::string("the cat"), text_rules());
  const RowOutcome typed = encode(bos + "the cat", text_rules());
  ASSERT_EQ(typed.rows.size(), 1u);
  EXPECT_EQ(typed.rows[0].ids, plain.rows[0].ids);
  ASSERT_EQ(typed.warnings.size(), 1u);
  EXPECT_THAT(typed.warnings[0], HasSubstr("begins with the BOS token"));
}

TEST_F(RowEncoderTest, ATypedEosDoesNotStandForTheOneThatEndsTheText) {
  const std::string eos = tiny_.tokenizer().eos_token();
  const auto ids = encode("the cat" + eos, text_rules()).rows.at(0).ids;
  ASSERT_GE(ids.size(), 2u);
  EXPECT_EQ(ids[ids.size() - 1], tiny_.tokenizer().eos_id());
  EXPECT_EQ(ids[ids.size() - 2], tiny_.tokenizer().eos_id());
}

TEST_F(RowEncoderTest, EmptyTextTeachesNothingButTheEnd) {
  const RowOutcome outcome = encode(std::string(), text_rules());
  // BOS and EOS: the end is what an empty text teaches.
  ASSERT_EQ(outcome.rows.size(), 1u);
  EXPECT_EQ(outcome.rows[0].ids.size(), 2u);
}

TEST_F(RowEncoderTest, LongTextsAreCutOrCutIntoPieces) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the cat sat ";
  const RowOutcome whole = encode(text, text_rules());
  for (const int64_t cutoff : {2, 3, 7, 16, 50}) {
    const RowOutcome cut = encode(text, text_rules(cutoff));
    ASSERT_EQ(cut.rows.size(), 1u);
    EXPECT_TRUE(cut.was_cut);
    EXPECT_EQ(cut.full_tokens, whole.full_tokens);
    EXPECT_EQ(static_cast<int64_t>(cut.rows[0].ids.size()), cutoff);
    EXPECT_TRUE(std::equal(cut.rows[0].ids.begin(), cut.rows[0].ids.end(), whole.rows[0].ids.begin()));

    const RowOutcome pieces = encode(text, text_rules(cutoff, true));
    EXPECT_FALSE(pieces.was_cut);
    std::vector<int32_t> joined;
    for (const EncodedRow& piece : pieces.rows) {
      EXPECT_LE(static_cast<int64_t>(piece.ids.size()), cutoff);
      EXPECT_EQ(piece.labels.at(0), -100);
      EXPECT_EQ(piece.labels.size(), piece.ids.size());
      joined.insert(joined.end(), piece.ids.begin(), piece.ids.end());
    }
    // A last piece of one token has nothing to predict and is dropped.
    const bool has_lone_end = whole.full_tokens % cutoff == 1;
    EXPECT_EQ(static_cast<int64_t>(joined.size()), whole.full_tokens - (has_lone_end ? 1 : 0)) << cutoff;
    EXPECT_TRUE(std::equal(joined.begin(), joined.end(), whole.rows[0].ids.begin()));
  }
}

TEST_F(RowEncoderTest, ACutInThePromptRefusesTheRow) {
  const RowOutcome whole = encode(chat(), TinyData::rules());
  const auto& labels = whole.rows.at(0).labels;
  const auto first = std::find_if(labels.begin(), labels.end(), [](int32_t label) { return label != -100; });
  const auto prompt = static_cast<int64_t>(first - labels.begin());
  ASSERT_GT(prompt, 2);
  const RowOutcome refused = encode(chat(), TinyData::rules(prompt));
  EXPECT_TRUE(refused.rows.empty());
  EXPECT_EQ(refused.refusal, "prompt fills the cutoff: no trained token among the first " +
                                 std::to_string(prompt) + " of " + std::to_string(whole.full_tokens) +
                                 " tokens");
  const RowOutcome kept = encode(chat(), TinyData::rules(prompt + 1));
  ASSERT_EQ(kept.rows.size(), 1u);
  EXPECT_TRUE(kept.was_cut);
  EXPECT_EQ(kept.rows[0].labels.back(), kept.rows[0].ids.back());
}

TEST_F(RowEncoderTest, WhatIsTrainedFollowsTheOptions) {
  const auto num_trained = [&](RenderOptions options) {
    EncodeRules rules = TinyData::rules();
    rules.render = std::move(options);
    const auto labels = encode(chat(), rules).rows.at(0).labels;
    return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != -100; });
  };
  const auto usual = num_trained({});
  const auto with_prompt = num_trained({.train_on_prompt = true});
  const auto last_only = num_trained({.mask_history = true});
  EXPECT_GT(with_prompt, usual);
  EXPECT_LT(last_only, usual);
  EXPECT_GT(last_only, 0);
  EncodeRules both = TinyData::rules();
  both.render = {.train_on_prompt = true, .mask_history = true};
  EXPECT_THROW(encode(chat(), both), ConfigError);
}

TEST_F(RowEncoderTest, NothingTrainedIsARefusal) {
  Conversation silent = chat();
  for (Message& message : silent.messages) message.is_trained = false;
  const RowOutcome outcome = encode(silent, TinyData::rules());
  EXPECT_TRUE(outcome.rows.empty());
  EXPECT_THAT(outcome.refusal, HasSubstr("no token to train in "));
}

TEST_F(RowEncoderTest, IdentityTellsEveryRuleApart) {
  std::set<std::string> seen;
  const auto add = [&](const EncodeRules& rules) {
    return seen.insert(tiny_.encoder(rules).identity()).second;
  };
  EXPECT_TRUE(add(TinyData::rules()));
  EXPECT_FALSE(add(TinyData::rules())) << "equal rules, equal identity";
  EXPECT_TRUE(add(TinyData::rules(7)));
  EXPECT_TRUE(add(text_rules()));
  EXPECT_TRUE(add(text_rules(2048, true)));
  EncodeRules rules = TinyData::rules();
  rules.render.train_on_prompt = true;
  EXPECT_TRUE(add(rules));
  rules.render = {.mask_history = true};
  EXPECT_TRUE(add(rules));
  rules.render = {.extra_json = R"({"a": 1})"};
  EXPECT_TRUE(add(rules));
  const ChatTemplate other = ChatTemplate::parse("{{ messages[1].content }}", "t");
  EXPECT_TRUE(seen.insert(RowEncoder(tiny_.tokenizer(), &other, TinyData::rules()).identity()).second);
}

TEST_F(RowEncoderTest, RulesThatCannotWorkAreRefused) {
  EXPECT_THAT(message_of<ConfigError>([&] { tiny_.encoder(TinyData::rules(1)); }),
              HasSubstr("cutoff_len = 1; wanted at least 2"));
  EXPECT_THAT(message_of<ConfigError>([&] { RowEncoder(tiny_.tokenizer(), nullptr, TinyData::rules()); }),
              HasSubstr("stage sft needs a chat template"));
  EXPECT_NO_THROW(RowEncoder(tiny_.tokenizer(), nullptr, text_rules()));
  const Tokenizer nameless =
      Tokenizer::from_json_file(fixture("cases/models/tok-bytefallback/tokenizer.json"));
  ASSERT_EQ(nameless.eos_id(), std::nullopt);
  EXPECT_THAT(message_of<ConfigError>([&] { RowEncoder(nameless, nullptr, text_rules()); }),
              HasSubstr("stage pt ends each text with EOS"));
}

}  // namespace
}  // namespace duoka::data
