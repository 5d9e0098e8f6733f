// What kilnctl asks, through a whole daemon.
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/artifact/call_spec.h"
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
  // By key, or else by job.
  grpc::Status Explain(const std::string& prefix, const std::string& job, v1::ExplainReply* reply) {
    v1::ExplainRequest request;
    prefix.empty() ? request.set_last_of_job(job) : request.set_key_prefix(prefix);
    return Call(&v1::Admin::Stub::Explain, request, reply);
  }
  v1::ExplainReply ExplainOk(const std::string& prefix, const std::string& job) {
    v1::ExplainReply reply;
    const grpc::Status status = Explain(prefix, job, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
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
  EXPECT_EQ(s.targets_size(), 5);
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

// float32[rows, 4].
v1::CompileRequest Sized(int64_t rows, const std::string& job, const std::string& op = "kernel.a") {
  v1::CompileRequest request = TestRequest({op}, job);
  v1::GuardSpec* guards = request.mutable_guards();
  for (const int64_t n : {rows, int64_t{4}, int64_t{1}, int64_t{0}}) {
    v1::SymExpr* e = guards->mutable_syms()->add_exprs();
    e->set_op(v1::SymExpr::CONST);
    e->set_value(n);
  }
  v1::TensorType* type = guards->add_types();
  type->set_dtype(v1::FLOAT32);
  type->set_device(v1::CPU);
  for (const uint32_t size : {0, 1}) type->add_sizes(size);
  for (const uint32_t stride : {1, 2}) type->add_strides(stride);
  v1::GuardSpec::InputGuard* input = guards->add_inputs();
  input->set_kind(v1::GuardSpec::InputGuard::TENSOR);
  input->set_storage_offset(3);
  return request;
}

TEST_F(AdminE2e, WhatWasCompiledIsExplained) {
  StartDaemon();
  const v1::Done eight = client_->Compile(Sized(8, "old")).done();
  client_->Compile(Sized(8, "old", "kernel.b"));
  v1::ExplainReply alone = ExplainOk("", "old");
  EXPECT_EQ(alone.compared(), 1u);
  const v1::Done sixteen = client_->Compile(Sized(16, "new")).done();

  const v1::ExplainReply reply = ExplainOk("", "new");
  EXPECT_EQ(reply.entry().key(), sixteen.key());
  EXPECT_EQ(reply.entry().job(), "new");
  EXPECT_FALSE(reply.lookup());
  EXPECT_FALSE(reply.truncated());
  EXPECT_EQ(reply.compared(), 2u);
  ASSERT_EQ(reply.nearest_size(), 2);
  const v1::ExplainReply::Neighbour& near = reply.nearest(0);
  EXPECT_EQ(near.entry().key(), eight.key());
  EXPECT_EQ(near.entry().job(), "old");
  EXPECT_GT(near.entry().created_unix_micros(), 0);
  ASSERT_EQ(near.differences_size(), 1);
  EXPECT_EQ(near.differences(0).part(), "guards");
  EXPECT_EQ(near.differences(0).what(), "input 0: dim 0");
  EXPECT_EQ(near.differences(0).before(), "8");
  EXPECT_EQ(near.differences(0).after(), "16");
  EXPECT_EQ(near.differences(0).advice(),
            "mark the dimension dynamic: torch._dynamo.mark_dynamic(x, 0), or compile with dynamic=True");
  EXPECT_EQ(reply.nearest(1).differences_size(), 2);  // the graph too

  const std::string hex = absl::BytesToHexString(sixteen.key());
  EXPECT_EQ(ExplainOk(hex.substr(0, 10), "").SerializeAsString(), reply.SerializeAsString());
  v1::ExplainReply none;
  EXPECT_EQ(Explain("", "nobody", &none).error_message(),
            "none of the 3 newest entries was compiled for the job 'nobody'");
  EXPECT_EQ(Explain("abc", "", &none).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Explain(hex.substr(0, 8) == "00000000" ? "11111111" : "00000000", "", &none).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(&v1::Admin::Stub::Explain, v1::ExplainRequest(), &none).error_message(),
            "key_prefix, last_of_job: want one of them");
}

TEST_F(AdminE2e, LookUpsAreExplained) {
  StartDaemon();
  const auto put = [&](int64_t rows, const std::string& op, int64_t least) {
    v1::PutCallSpecRequest put;
    put.set_protocol_version(1);
    *put.mutable_request() = Sized(rows, "look", op);
    put.mutable_request()->mutable_graph()->set_level(v1::Graph::TORCH);
    put.mutable_request()->mutable_graph()->add_nodes();
    put.mutable_variant()->set_version(kVariantVersion);
    put.mutable_variant()->mutable_spec();
    if (least > 0) {
      v1::SymTable* syms = put.mutable_variant()->mutable_syms();
      syms->add_symbols()->set_max(1000);
      syms->add_exprs()->set_op(v1::SymExpr::SYMBOL);
      v1::SymExpr* e = syms->add_exprs();
      e->set_op(v1::SymExpr::CONST);
      e->set_value(least);
      v1::Predicate* predicate = put.mutable_variant()->add_predicates();
      predicate->set_op(v1::Predicate::LE);
      predicate->set_lhs(1);
    }
    put.set_action(Compile({"kernel.a"}, "look").done().key());
    grpc::ClientContext context;
    TestClient::SetDeadline(&context);
    v1::PutCallSpecReply reply;
    EXPECT_TRUE(client_->compiler().PutCallSpec(&context, put, &reply).ok());
    return reply.key();
  };
  put(8, "torch.sin", 0);
  const std::string first = put(8, "torch.relu", 0);
  EXPECT_EQ(put(8, "torch.relu", 2), first);
  const std::string second = put(16, "torch.relu", 0);

  const v1::ExplainReply reply = ExplainOk("", "look");
  EXPECT_TRUE(reply.lookup());
  EXPECT_EQ(reply.entry().key(), second);
  EXPECT_EQ(reply.entry().job(), "look");
  ASSERT_EQ(reply.nearest_size(), 3);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(reply.nearest(i).entry().key(), first);
    ASSERT_EQ(reply.nearest(i).differences_size(), 1);
    EXPECT_EQ(reply.nearest(i).differences(0).what(), "input 0: dim 0");
  }
  ASSERT_EQ(reply.nearest(2).differences_size(), 2);
  EXPECT_EQ(reply.nearest(2).differences(1).what(), "node 0");
  EXPECT_EQ(reply.nearest(2).differences(1).before(), "torch.sin");
  EXPECT_EQ(reply.nearest(2).differences(1).after(), "torch.relu");

  // The newest of the two with this key, beside the other.
  const v1::ExplainReply sibling = ExplainOk(absl::BytesToHexString(first), "");
  ASSERT_EQ(sibling.nearest_size(), 3);
  ASSERT_EQ(sibling.nearest(0).differences_size(), 1);
  EXPECT_EQ(sibling.nearest(0).differences(0).part(), "predicates");
  EXPECT_EQ(sibling.nearest(0).differences(0).before(), "any size");
  EXPECT_EQ(sibling.nearest(0).differences(0).after(), "2 <= s0");
}

TEST_F(AdminE2e, AnUpgradeIsExplained) {
  StartDaemon();
  client_->Compile(Sized(8, "before"));
  StopDaemon();
  StartDaemon("", nullptr, "ffffffffffff");
  client_->Compile(Sized(8, "after"));
  const v1::ExplainReply reply = ExplainOk("", "after");
  ASSERT_EQ(reply.nearest_size(), 1);
  ASSERT_EQ(reply.nearest(0).differences_size(), 1);
  EXPECT_EQ(reply.nearest(0).differences(0).part(), "build");
  EXPECT_EQ(reply.nearest(0).differences(0).before(), "0123456789ab");
  EXPECT_EQ(reply.nearest(0).differences(0).after(), "ffffffffffff");
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
  v1::ExplainReply none;
  EXPECT_EQ(Explain("", "nobody", &none).error_code(), grpc::StatusCode::NOT_FOUND);
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
