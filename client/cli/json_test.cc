#include "client/cli/json.h"

#include <gtest/gtest.h>

#include <limits>

#include "proto/admin.pb.h"
#include "proto/compile.pb.h"

namespace kiln {
namespace {

TEST(Json, NumbersAreNumbersAndDefaultsAreThere) {
  v1::Counters c;
  c.set_hits(std::numeric_limits<uint64_t>::max());
  c.set_seconds_saved(0.1);
  EXPECT_EQ(ToJson(c),
            "{\"lookups\":0,\"hits\":18446744073709551615,\"misses\":0,\"compiles\":0,\"joined\":0,\"failures\":0,"
            "\"kernels\":0,\"kernel_hits\":0,\"seconds_spent\":0,\"seconds_saved\":0.1,\"bytes_sent\":0}");
}

TEST(Json, MessagesListsBytesEnumsAndOneofs) {
  v1::Done done;
  done.set_outcome(v1::Done::HIT);
  done.set_key(std::string("\x00\xff", 2));
  v1::KeyPart* part = done.mutable_record()->add_key_parts();
  part->set_name("graph");
  const std::string json = ToJson(done);
  EXPECT_NE(json.find("\"outcome\":\"HIT\",\"key\":\"00ff\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"key_parts\":[{\"name\":\"graph\",\"sha256\":\"\",\"value\":\"\"}]"), std::string::npos)
      << json;
  v1::CompileEvent event;
  EXPECT_EQ(ToJson(event), "{}");
  event.mutable_kernels()->set_total(3);
  EXPECT_EQ(ToJson(event), "{\"kernels\":{\"done\":0,\"total\":3}}");
}

TEST(Json, StringsAreEscaped) { EXPECT_EQ(JsonString("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\""); }

TEST(Json, NoNumberIsNotANumber) {
  v1::Counters c;
  c.set_seconds_spent(std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(ToJson(c).find("\"seconds_spent\":null"), std::string::npos);
}

}  // namespace
}  // namespace kiln
