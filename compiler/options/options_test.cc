#include "compiler/options/options.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <limits>

#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(Options, EveryFieldOfTheRequestIsAKeyOption) {
  const google::protobuf::Descriptor* descriptor = v1::Options::descriptor();
  int keys = 0;
  for (const OptionInfo& option : AllOptions()) {
    const bool key = option.effect == OptionEffect::kKey;
    keys += key;
    EXPECT_EQ(descriptor->FindFieldByName(std::string(option.name)) != nullptr, key) << option.name;
    EXPECT_EQ(option.value != nullptr, key) << option.name;
  }
  EXPECT_EQ(keys, descriptor->field_count());
  EXPECT_TRUE(std::is_sorted(AllOptions().begin(), AllOptions().end(),
                             [](const OptionInfo& a, const OptionInfo& b) { return a.name < b.name; }));
}

TEST(Options, CanonicalTextTellsEachOptionApart) {
  v1::Options proto;
  EXPECT_EQ(CanonicalText(*ImportOptions(proto)), "memory_budget=1;precision=eager");
  proto.set_memory_budget(1);
  EXPECT_EQ(CanonicalText(*ImportOptions(proto)), "memory_budget=1;precision=eager");
  for (const double zero : {0.0, -0.0}) {
    proto.set_memory_budget(zero);
    EXPECT_EQ(CanonicalText(*ImportOptions(proto)), "memory_budget=0;precision=eager");
  }
  proto.set_memory_budget(0.5);
  proto.set_precision(v1::Options::FAST);
  EXPECT_EQ(CanonicalText(*ImportOptions(proto)), "memory_budget=0.5;precision=fast");
}

TEST(Options, BadValuesAreRefused) {
  for (double budget : {-0.5, 1.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    v1::Options proto;
    proto.set_memory_budget(budget);
    EXPECT_EQ(ImportOptions(proto).status().code(), absl::StatusCode::kInvalidArgument) << budget;
  }
  v1::Options proto;
  proto.set_precision(static_cast<v1::Options::Precision>(7));
  EXPECT_EQ(ImportOptions(proto).status().message(), "options.precision: unknown value 7");
}

}  // namespace
}  // namespace kiln
