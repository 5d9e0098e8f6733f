// Each system library is found, links and agrees with our flags on its ABI.
#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <google/protobuf/any.pb.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/registry.h>
#include <rocksdb/db.h>
#include <sodium.h>
#include <spdlog/spdlog.h>
#include <zstd.h>

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace {

TEST(Deps, Absl) {
  absl::flat_hash_map<std::string, int> map = {{"a", 1}};
  absl::Mutex mutex;
  const absl::MutexLock lock(&mutex);
  const absl::StatusOr<int> error = absl::InvalidArgumentError(absl::StrCat("x", map["a"]));
  EXPECT_EQ(error.status().message(), "x1");
  EXPECT_EQ(absl::StrFormat("%d", 7), "7");
  EXPECT_EQ(absl::Cord(std::string("cord")), "cord");
  EXPECT_LT(absl::UnixEpoch(), absl::Now());
}

TEST(Deps, Grpc) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  EXPECT_NE(port, 0);
  EXPECT_NE(server->GetHealthCheckService(), nullptr);
  server->Shutdown();
}

TEST(Deps, Protobuf) {
  google::protobuf::Any any;
  any.set_type_url("t");
  EXPECT_THAT(any.ShortDebugString(), testing::HasSubstr("t"));
}

TEST(Deps, RocksDb) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, testing::TempDir() + "/db", &db);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::unique_ptr<rocksdb::DB> owner(db);
  EXPECT_TRUE(db->Put({}, "k", "v").ok());
}

TEST(Deps, Others) {
  EXPECT_GE(sodium_init(), 0);
  EXPECT_GT(ZSTD_compressBound(1), 0u);
  spdlog::info("{}", "spdlog");
  prometheus::Registry registry;
  prometheus::BuildCounter().Name("c").Register(registry).Add({}).Increment();
  prometheus::Exposer exposer("127.0.0.1:0");
  EXPECT_EQ(exposer.GetListeningPorts().size(), 1u);
  CLI::App app;
  int flag = 0;
  app.add_option("--flag", flag);
  const char* args[] = {"test", "--flag=3"};
  app.parse(2, args);
  EXPECT_EQ(flag, 3);
}

}  // namespace
