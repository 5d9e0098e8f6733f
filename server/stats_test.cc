#include "server/stats.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"

namespace kiln {
namespace {

TEST(Stats, AddsUpInAllAndByJob) {
  v1::Counters d;
  // Every field, so that one that is forgotten shows.
  const google::protobuf::Reflection* r = d.GetReflection();
  for (int i = 0; i < d.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* f = d.GetDescriptor()->field(i);
    if (f->cpp_type() == f->CPPTYPE_DOUBLE) {
      r->SetDouble(&d, f, i + 1);
    } else {
      r->SetUInt64(&d, f, static_cast<uint64_t>(i) + 1);
    }
  }
  Stats stats;
  stats.Add("b", d);
  stats.Add("a", d);
  stats.Add("b", d);
  v1::StatsReply reply;
  stats.Fill(&reply);
  ASSERT_EQ(reply.jobs_size(), 2);
  EXPECT_EQ(reply.jobs(0).job(), "a");
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(reply.jobs(0).counters(), d));
  for (int i = 0; i < d.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* f = d.GetDescriptor()->field(i);
    const bool real = f->cpp_type() == f->CPPTYPE_DOUBLE;
    const v1::Counters& t = reply.totals();
    EXPECT_EQ(real ? r->GetDouble(t, f) : static_cast<double>(r->GetUInt64(t, f)), 3.0 * (i + 1)) << f->name();
  }
}

TEST(Stats, ManyJobsShareOneRow) {
  Stats stats;
  v1::Counters one;
  one.set_lookups(1);
  for (size_t i = 0; i < Stats::kMaxJobs + 50; ++i) stats.Add(absl::StrCat("job", i), one);
  stats.Add("", one);
  stats.Add("job0", one);
  v1::StatsReply reply;
  stats.Fill(&reply);
  EXPECT_EQ(reply.jobs_size(), static_cast<int>(Stats::kMaxJobs) + 1);
  EXPECT_EQ(reply.jobs(0).job(), Stats::kOthers);
  EXPECT_EQ(reply.jobs(0).counters().lookups(), 51u);
  EXPECT_EQ(reply.jobs(1).counters().lookups(), 2u);
  EXPECT_EQ(reply.totals().lookups(), Stats::kMaxJobs + 52);
}

TEST(Stats, NamesAreMadeFitToPrint) {
  Stats stats;
  stats.Add("two\nlines", {});
  stats.Add("", {});
  v1::StatsReply reply;
  stats.Fill(&reply);
  EXPECT_EQ(reply.jobs(0).job(), "(unnamed)");
  EXPECT_EQ(reply.jobs(1).job(), "two lines");
}

}  // namespace
}  // namespace kiln
