// SPDX-License-Identifier: Apache-2.0
// Where the interpreter is known to differ from Python's Jinja2, pinned: each is either refused with a clear
// message or a matter that no known template depends on. Whoever closes one of these moves it to the recorded
// tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/jinja_cases.h"

namespace duoka::data::testing {
namespace {

using ::testing::HasSubstr;

TEST(JinjaDifferences, RefusedWithAMessage) {
  // Python has whole numbers of any size.
  EXPECT_THAT(failure("{{ 9223372036854775807 + 1 }}"), HasSubstr("does not fit into 64 bits"));
  EXPECT_THAT(failure("{% for x in names recursive %}{% endfor %}"),
              HasSubstr("recursive loops are not supported"));
  EXPECT_THAT(failure("{{ range(*[1, 2]) }}"), HasSubstr("unpacking arguments with * is not supported"));
  EXPECT_THAT(failure("{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1) }}"),
              HasSubstr("takes 0 arguments at most"));
  EXPECT_THAT(failure("{{ '{:.2f}'.format(1.5) }}"), HasSubstr("fields are {}, {0} or {name} only"));
  EXPECT_THAT(failure("{{ '%5d' % 1 }}"), HasSubstr("a % format knows"));
  EXPECT_THAT(failure("{{ people | groupby('town', default=0) }}"), HasSubstr("no argument named 'default'"));
  EXPECT_THAT(failure("{{ 'aB'.swapcase() }}"), HasSubstr("has no attribute 'swapcase'"));
  EXPECT_THAT(failure("{{ 'x' | urlencode }}"), HasSubstr("unknown filter 'urlencode'"));
  EXPECT_THAT(failure("{% block a %}{% endblock %}"), HasSubstr("unknown tag 'block'"));
}

TEST(JinjaDifferences, PrintedOtherwise) {
  EXPECT_EQ(render("{{ range(3) }}"), "[0, 1, 2]");                // Python: range(0, 3)
  EXPECT_EQ(render("{{ {'a': 1}.keys() }}"), "dict_view(['a'])");  // Python: dict_keys(['a'])
  EXPECT_EQ(render("{{ 'a'.upper }}"), "<function upper>");        // Python: an address in memory
  EXPECT_EQ(render("{{ namespace(a=1) }}"), "<Namespace>");        // Python: <Namespace {'a': 1}>
  EXPECT_EQ(render("{{ [1] | select }}"), "<generator object>");   // Python: an address in memory
}

TEST(JinjaDifferences, CaseOfSingleCharactersOnly) {
  EXPECT_EQ(render("{{ 'ΑΣ' | lower }}"), "ασ");  // Python knows the final sigma: ας
  EXPECT_EQ(render("{{ 'ﬁ' | upper }}"), "ﬁ");    // Python: FI
  EXPECT_EQ(render("{{ 'Straße' | upper }}"), "STRASSE");
}

TEST(JinjaDifferences, TakenWherePythonRefuses) {
  EXPECT_EQ(render("{{ 5 | indent }}"), "5");
  EXPECT_EQ(render("{{ 'aba'.strip(chars='a') }}"), "b");
  EXPECT_EQ(render("{{ '{} {1}'.format(1, 2) }}"), "1 2");
  EXPECT_EQ(render("{% filter length %}abc{% endfilter %}"), "3");
  EXPECT_EQ(render("{% for a, in [(1,)] %}{{ a }}{% endfor %}"), "1");
}

}  // namespace
}  // namespace duoka::data::testing
