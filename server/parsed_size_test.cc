#include "server/parsed_size.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "proto/compile.pb.h"

namespace kiln {
namespace {

constexpr uint64_t kNoBound = 1 << 30;

v1::CompileRequest Request(int nodes) {
  v1::CompileRequest request;
  request.set_protocol_version(1);
  request.mutable_job()->set_job("job");
  for (int i = 0; i < nodes; ++i) {
    v1::Node* node = request.mutable_graph()->add_nodes();
    node->set_op(3);
    node->add_args()->set_value(7);
    node->add_args()->mutable_list()->add_items()->set_value(-1);
    node->add_result_types(1);
    request.mutable_debug()->add_node_names(absl::StrCat("a_name_that_does_not_fit_into_the_string_itself_", i));
  }
  return request;
}

absl::StatusOr<uint64_t> Size(std::string_view wire, uint64_t bound = kNoBound) {
  return ParsedSize(wire, *v1::CompileRequest::descriptor(), bound);
}

TEST(ParsedSize, IsWhatTheMessageTakesAndLittleMore) {
  for (const int nodes : {0, 1, 1000}) {
    const v1::CompileRequest request = Request(nodes);
    const absl::StatusOr<uint64_t> size = Size(request.SerializeAsString());
    ASSERT_TRUE(size.ok()) << size.status();
    v1::CompileRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(request.SerializeAsString()));
    EXPECT_GE(*size, parsed.SpaceUsedLong());
    EXPECT_LE(*size, 2 * parsed.SpaceUsedLong());
  }
}

TEST(ParsedSize, StopsAtTheBound) {
  const std::string wire = Request(1000).SerializeAsString();
  const absl::Status status = Size(wire, 10'000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            absl::StrCat("request: its ", wire.size(), " bytes would take more than 10000 in memory"));
}

TEST(ParsedSize, CountsWhatItDoesNotKnow) {
  // A later version's fields: strings, numbers, and a known one that has become a number.
  for (const std::string field : {"\xfa\x7f\x02xy", "\xf8\x7f\x01", "\x28\x58"}) {
    std::string wire;
    for (int i = 0; i < 100; ++i) {
      wire += field;
      const absl::StatusOr<uint64_t> size = Size(wire);
      ASSERT_TRUE(size.ok()) << size.status();
      v1::CompileRequest parsed;
      ASSERT_TRUE(parsed.ParseFromString(wire));
      EXPECT_GE(*size, parsed.SpaceUsedLong());
      EXPECT_LE(*size, 3 * parsed.SpaceUsedLong());
    }
  }
}

TEST(ParsedSize, CountsWhatIsInGroups) {
  std::string inner;
  for (int i = 0; i < 1000; ++i) inner += "\x28\x58";
  const std::string wire = "\x43\x4b" + inner + "\x4c" + inner + "\x44";  // field 9 in field 8
  const absl::StatusOr<uint64_t> size = Size(wire);
  ASSERT_TRUE(size.ok()) << size.status();
  v1::CompileRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(wire));
  EXPECT_GE(*size, parsed.SpaceUsedLong());
  EXPECT_GE(*size, 2000u * 16);
  EXPECT_EQ(Size(wire, 10'000).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(Size(wire.substr(0, wire.size() - 1)).ok());
  EXPECT_FALSE(Size(std::string(200, '\x43') + std::string(200, '\x44')).ok());  // too deep
}

TEST(ParsedSize, GarbageIsRefused) {
  const std::string whole = Request(2).SerializeAsString();
  for (const std::string& wire :
       {std::string("\xff\xff\xff garbage"), std::string("\x12\x7f"), whole.substr(0, whole.size() - 1)}) {
    EXPECT_EQ(Size(wire).status().code(), absl::StatusCode::kInvalidArgument);
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) {                // lists of lists: 200 messages, one in the other
    for (const char field : {'\x0a', '\x62'}) {  // Arg.List.items, Arg.list
      std::string length;
      for (size_t left = deep.size(); left > 0 || length.empty(); left >>= 7) {
        length += static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
      }
      deep = absl::StrCat(std::string(1, field), length, deep);
    }
  }
  EXPECT_EQ(ParsedSize(deep, *v1::Arg::descriptor(), kNoBound).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kiln
