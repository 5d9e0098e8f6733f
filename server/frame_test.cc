#include "server/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/time/clock.h"

namespace kiln {
namespace {

using absl::StatusCode;

class Frame : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_), 0); }
  void TearDown() override {
    CloseFar();
    close(fds_[0]);
  }
  void CloseFar() {
    if (fds_[1] >= 0) close(fds_[1]);
    fds_[1] = -1;
  }
  void SendRaw(std::string_view bytes) {
    ASSERT_EQ(write(fds_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  absl::Status ReadStatus(absl::Duration wait = absl::Seconds(20)) {
    return ReadFrame(fds_[0], absl::Now() + wait).status();
  }
  int fds_[2];
};

TEST_F(Frame, RoundTripsAnySize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{300}, size_t{5} << 20}) {
    const std::string payload(size, 'x');
    std::thread writer([&] { EXPECT_TRUE(WriteFrame(fds_[1], payload, absl::InfiniteFuture()).ok()); });
    const absl::StatusOr<std::string> got = ReadFrame(fds_[0], absl::InfiniteFuture());
    writer.join();
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(*got == payload) << size;
  }
}

TEST_F(Frame, HeaderIsLittleEndian) {
  ASSERT_TRUE(WriteFrame(fds_[1], std::string(258, 'a'), absl::InfiniteFuture()).ok());
  unsigned char header[4];
  ASSERT_EQ(read(fds_[0], header, 4), 4);
  EXPECT_EQ(header[0], 2);
  EXPECT_EQ(header[1], 1);
  EXPECT_EQ(header[2], 0);
  EXPECT_EQ(header[3], 0);
}

TEST_F(Frame, EndOfStream) {
  CloseFar();
  EXPECT_EQ(ReadStatus().code(), StatusCode::kUnavailable);
  EXPECT_EQ(WriteFrame(fds_[0], "x", absl::Now() + absl::Seconds(20)).code(), StatusCode::kUnavailable);
}

TEST_F(Frame, EndWithinAFrame) {
  SendRaw(std::string_view("\x05\0\0\0abc", 7));
  CloseFar();
  EXPECT_EQ(ReadStatus().code(), StatusCode::kDataLoss);
}

TEST_F(Frame, EndWithinAHeader) {
  SendRaw("\x05");
  CloseFar();
  EXPECT_EQ(ReadStatus().code(), StatusCode::kDataLoss);
}

TEST_F(Frame, TooLargeIsRefusedUnread) {
  SendRaw("\xff\xff\xff\xff");
  const absl::Status s = ReadStatus();
  EXPECT_EQ(s.code(), StatusCode::kDataLoss);
  EXPECT_EQ(std::string(s.message()), "a frame of 4294967295 bytes is announced, the bound is 268435456");
}

TEST_F(Frame, DeadlineEndsBothWaits) {
  EXPECT_EQ(ReadStatus(absl::Milliseconds(30)).code(), StatusCode::kDeadlineExceeded);
  const std::string large(16 << 20, 'x');  // more than a socket's buffer
  EXPECT_EQ(WriteFrame(fds_[0], large, absl::Now() + absl::Milliseconds(30)).code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace kiln
