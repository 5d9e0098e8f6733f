// What kilnctl asks, through a whole daemon.
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/testing/test_daemon.h"

namespace kiln {
namespace {

class AdminE2e : public DaemonTest {
 protected:
  template <typename Request, typename Reply>
  grpc::Status Call(grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply* reply) {
    grpc::ClientContext context;
    TestClient::SetDeadline(&context);
    return (client_->admin().*method)(&context, request, reply);
  }
  v1::ListEntriesReply List(bool negative = false, uint32_t limit = 0) {
    v1::ListEntriesRequest request;
    request.set_negative(negative);
    request.set_limit(limit);
    v1::ListEntriesReply reply;
    EXPECT_TRUE(Call(&v1::Admin::Stub::ListEntries, request, &reply).ok());
    return reply;
  }
  grpc::Status Inspect(const std::string& prefix, v1::InspectEntryReply* reply) {
    v1::InspectEntryRequest request;
    request.set_key_prefix(prefix);
    return Call(&v1::Admin::Stub::InspectEntry, request, reply);
  }
  grpc::Status Remove(const v1::RemoveEntriesRequest& request, uint64_t* removed) {
    v1::RemoveEntriesReply reply;
    const grpc::Status status = Call(&v1::Admin::Stub::RemoveEntries, request, &reply);
    *removed = reply.removed();
    return status;
  }
};

TEST_F(AdminE2e, HealthAndReflection) {
  StartDaemon();
  std::string reply;
  EXPECT_TRUE(client_->CallRaw("/grpc.health.v1.Health/Check", "", &reply).ok());
  EXPECT_EQ(reply, "\x08\x01");  // HealthCheckResponse.status: SERVING
  reply.clear();
  const std::string list_services = "\x3a\x01*";  // ServerReflectionRequest.list_services
  const char* method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  EXPECT_TRUE(client_->CallRaw(method, list_services, &reply).ok());
  for (const char* service : {"kiln.v1.Compiler", "kiln.v1.Admin", "grpc.health.v1.Health"}) {
    EXPECT_NE(reply.find(service), std::string::npos) << service;
  }
}

TEST_F(AdminE2e, StatusTellsWhatRuns) {
  StartDaemon("workers { count: 3 }");
  ASSERT_TRUE(Eventually([&] { return client_->IdleWorkers().size() == 3; }));
  const v1::StatusReply s = client_->Status();
  EXPECT_EQ(s.pid(), getpid());
  EXPECT_EQ(s.build(), "0123456789ab");
  EXPECT_EQ(s.protocol_version(), 1u);
  EXPECT_EQ(s.state(), "serving");
  EXPECT_EQ(s.addresses(0), Address());
  EXPECT_EQ(s.data_dir(), folder_.File("data/store"));
  EXPECT_EQ(s.targets_size(), 3);
  EXPECT_EQ(s.queued(), 0u);
  EXPECT_GE(s.uptime_seconds(), 0);
}

TEST_F(AdminE2e, StatsAreExactInAllAndByJob) {
  StartDaemon();
  Compile({"kernel.a", "kernel.b"}, "one");
  Compile({"kernel.a", "kernel.b"}, "one");
  Compile({"kernel.a", "kernel.b"}, "two");
  Compile({"kernel.b", "kernel.c"}, "two");
  Compile({"fake.invalid:1"}, "two");
  const v1::StatsReply stats = client_->Stats();
  ASSERT_EQ(stats.jobs_size(), 2);
  const v1::Counters &one = stats.jobs(0).counters(), &two = stats.jobs(1).counters(), &all = stats.totals();
  EXPECT_EQ(one.lookups(), 2u);
  EXPECT_EQ(one.hits(), 1u);
  EXPECT_EQ(one.misses(), 1u);
  EXPECT_EQ(one.compiles(), 1u);
  EXPECT_EQ(one.kernels(), 2u);
  EXPECT_EQ(one.kernel_hits(), 0u);
  EXPECT_EQ(two.lookups(), 3u);
  EXPECT_EQ(two.hits(), 1u);
  EXPECT_EQ(two.misses(), 2u);
  EXPECT_EQ(two.compiles(), 2u);
  EXPECT_EQ(two.failures(), 1u);
  EXPECT_EQ(two.kernels(), 2u);
  EXPECT_EQ(two.kernel_hits(), 1u);
  EXPECT_EQ(all.lookups(), 5u);
  EXPECT_EQ(all.hits() + all.misses(), all.lookups());
  EXPECT_NEAR(all.seconds_spent(), one.seconds_spent() + two.seconds_spent(), 1e-9);
  // Each hit saved what its compile had cost.
  EXPECT_NEAR(all.seconds_saved(), 2 * one.seconds_spent(), 1e-9);
  EXPECT_EQ(stats.entries(), 2u);
  EXPECT_GT(stats.blobs(), 0u);
  EXPECT_GT(stats.bytes(), 0u);
  EXPECT_EQ(stats.byte_cap(), 10ull << 30);
  EXPECT_EQ(stats.negative(), 0u);
}

TEST_F(AdminE2e, EntriesAreListedAndInspected) {
  StartDaemon();
  const v1::Done done = Compile({"kernel.a", "kernel.b"}, "trainer").done();
  const v1::ListEntriesReply list = List();
  ASSERT_EQ(list.entries_size(), 1);
  const v1::EntrySummary& e = list.entries(0);
  EXPECT_EQ(e.key(), done.key());
  EXPECT_EQ(e.job(), "trainer");
  EXPECT_EQ(e.num_kernels(), 2u);
  EXPECT_EQ(e.target(), "x86-64-v3");
  EXPECT_EQ(e.compile_seconds(), done.record().compile_seconds());
  EXPECT_GT(e.bytes(), done.artifact().size() + done.shared_object().size());
  EXPECT_GT(e.created_unix_micros(), 0);

  v1::InspectEntryReply entry;
  const std::string hex = absl::BytesToHexString(done.key());
  ASSERT_TRUE(Inspect(hex.substr(0, 8), &entry).ok());
  EXPECT_EQ(entry.record().SerializeAsString(), done.record().SerializeAsString());
  EXPECT_EQ(entry.guards().globals(0).name(), "grad_mode");
  EXPECT_EQ(entry.provenance().job(), "trainer");
  EXPECT_EQ(entry.provenance().principal(), absl::StrCat("uid:", geteuid()));
  EXPECT_EQ(entry.provenance().build(), "0123456789ab");
  EXPECT_EQ(entry.provenance().kernels(0).text(), "a");
  EXPECT_FALSE(entry.provenance().kernels(0).cached());
  EXPECT_GE(entry.provenance().worker_pids_size(), 1);

  EXPECT_EQ(Inspect("abc", &entry).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Inspect("xyz!", &entry).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Inspect(hex.substr(0, 8) == "00000000" ? "11111111" : "00000000", &entry).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(AdminE2e, ListsAreBounded) {
  StartDaemon();
  for (int i = 0; i < 3; ++i) Compile({absl::StrCat("kernel.", i)});
  EXPECT_EQ(List(false, 2).entries_size(), 2);
  EXPECT_TRUE(List(false, 2).truncated());
  EXPECT_EQ(List(false, 3).entries_size(), 3);
  EXPECT_FALSE(List(false, 3).truncated());
}

TEST_F(AdminE2e, EntriesAreRemoved) {
  StartDaemon();
  const v1::Done a = Compile({"kernel.a"}).done();
  Compile({"kernel.b"});
  Compile({"fake.crash"});
  uint64_t removed = 0;
  v1::RemoveEntriesRequest request;
  request.set_negative(true);
  ASSERT_TRUE(Remove(request, &removed).ok());
  EXPECT_EQ(removed, 1u);
  EXPECT_FALSE(Compile({"fake.crash"}).failure().negative());
  request.set_key_prefix(absl::BytesToHexString(a.key()));
  ASSERT_TRUE(Remove(request, &removed).ok());
  EXPECT_EQ(removed, 1u);
  EXPECT_EQ(List().entries_size(), 1);
  EXPECT_EQ(Remove(request, &removed).error_code(), grpc::StatusCode::NOT_FOUND);
  request.set_all(true);
  ASSERT_TRUE(Remove(request, &removed).ok());
  EXPECT_EQ(removed, 4u);  // an action, a negative entry, two kernels
  EXPECT_EQ(List().entries_size(), 0);
  EXPECT_EQ(Compile({"kernel.a"}).done().outcome(), v1::Done::COMPILED);
  EXPECT_EQ(Totals().kernel_hits(), 0u);
}

TEST_F(AdminE2e, RolesDecide) {
  StartDaemon("auth { roles { principal: \"*\" roles: \"reader\" } }");
  EXPECT_EQ(Compile({"kernel.a"}).status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Compile({"kernel.a"}).status.error_message(),
            absl::StrCat("principal 'uid:", geteuid(), "' lacks the role 'writer'"));
  grpc::Status status;
  client_->Lookup(TestRequest({"kernel.a"}), &status);
  EXPECT_TRUE(status.ok());
  v1::RemoveEntriesRequest all;
  all.set_all(true);
  uint64_t removed = 0;
  EXPECT_EQ(Remove(all, &removed).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  v1::DrainReply drained;
  EXPECT_EQ(Call(&v1::Admin::Stub::Drain, v1::DrainRequest(), &drained).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AdminE2e, TcpPrincipalIsDefaultAndThePortIsTold) {
  StartDaemon("listen: \"127.0.0.1:0\"");
  const std::string tcp = daemon_->addresses()[0];
  EXPECT_EQ(tcp.substr(0, 10), "127.0.0.1:");
  EXPECT_NE(tcp, "127.0.0.1:0");
  TestClient client(tcp);
  ASSERT_TRUE(client.Compile(TestRequest({"kernel.a"})).done().has_record());
  v1::InspectEntryReply entry;
  ASSERT_TRUE(Inspect(absl::BytesToHexString(List().entries(0).key()), &entry).ok());
  EXPECT_EQ(entry.provenance().principal(), "default");
}

TEST_F(AdminE2e, DrainReturnsWhenNothingIsInFlight) {
  StartDaemon();
  v1::DrainReply reply;
  ASSERT_TRUE(Call(&v1::Admin::Stub::Drain, v1::DrainRequest(), &reply).ok());
  EXPECT_EQ(reply.in_flight(), 0u);
  EXPECT_EQ(client_->Status().state(), "draining");
}

TEST_F(AdminE2e, DrainTellsWhatIsLeftAtItsDeadline) {
  StartDaemon();
  const std::string go = folder_.File("go");
  std::thread running([&] {
    TestClient client(Address());
    client.Compile(TestRequest({"fake.wait_for:" + go}));
  });
  ASSERT_TRUE(Eventually([&] { return client_->Status().running() == 1; }));
  grpc::ClientContext context;
  TestClient::SetDeadline(&context, absl::Seconds(1));
  v1::DrainReply reply;
  const grpc::Status status = client_->admin().Drain(&context, v1::DrainRequest(), &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply.in_flight(), 1u);
  Touch(go);
  running.join();
}

TEST_F(AdminE2e, DataDirectoryAndSocketArePrivate) {
  StartDaemon();
  struct stat info;
  ASSERT_EQ(stat(folder_.File("s.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder_.File("data/store").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0u);
}

TEST_F(AdminE2e, IdleDaemonsLeave) {
  StartDaemon("idle_exit_seconds: 0.3");
  EXPECT_TRUE(daemon_->Run());
}

}  // namespace
}  // namespace kiln
