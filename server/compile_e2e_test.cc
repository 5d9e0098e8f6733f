// Compiles through a whole daemon: misses, hits, joins, blobs.
#include <signal.h>

#include <atomic>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/digest.h"
#include "server/testing/test_daemon.h"
#include "server/wire.h"

namespace kiln {
namespace {

using CompileE2e = DaemonTest;

TEST_F(CompileE2e, AMissCompilesInOrderAndAHitReturnsTheSameBytes) {
  StartDaemon();
  const CompileAnswer miss = Compile({"kernel.a", "kernel.b"});
  ASSERT_TRUE(miss.status.ok()) << miss.status.error_message();
  EXPECT_EQ(miss.Kinds(), "queued planning partitioned kernels kernels linking done");
  const v1::Done done = miss.done();
  EXPECT_EQ(done.outcome(), v1::Done::COMPILED);
  EXPECT_EQ(done.key().size(), 32u);
  EXPECT_EQ(done.shared_object(), "object of a for x86-64-v3\nobject of b for x86-64-v3\n");
  EXPECT_EQ(done.record().num_kernels(), 2u);
  EXPECT_GT(done.record().compile_seconds(), 0);
  EXPECT_GT(done.server_seconds(), 0);

  const CompileAnswer hit = Compile({"kernel.a", "kernel.b"});
  EXPECT_EQ(hit.Kinds(), "done");
  EXPECT_EQ(hit.done().outcome(), v1::Done::HIT);
  EXPECT_EQ(hit.done().key(), done.key());
  EXPECT_EQ(hit.done().artifact(), done.artifact());
  EXPECT_EQ(hit.done().shared_object(), done.shared_object());
  EXPECT_EQ(hit.done().record().SerializeAsString(), done.record().SerializeAsString());
}

TEST_F(CompileE2e, TheArtifactIsCompleteAndNamesItsContent) {
  StartDaemon();
  const v1::Done done = Compile({"kernel.a"}).done();
  EXPECT_EQ(FromProto(done.record().artifact(), "").value(), Digest::Of(done.artifact()));
  EXPECT_EQ(FromProto(done.record().shared_object(), "").value(), Digest::Of(done.shared_object()));
  v1::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(done.artifact()));
  EXPECT_EQ(artifact.build(), "0123456789ab");
  EXPECT_EQ(artifact.target().name(), "x86-64-v3");
  EXPECT_EQ(artifact.shared_object().SerializeAsString(), done.record().shared_object().SerializeAsString());
  std::set<std::string> names;
  for (const v1::KeyPart& part : artifact.key_parts()) names.insert(part.name());
  EXPECT_EQ(names, (std::set<std::string>{"domain", "level", "graph", "guards", "precision", "memory_budget", "target",
                                          "torch", "aoti_abi", "kiln_abi", "schema", "build"}));
}

class CudaE2e : public DaemonTest {
 protected:
  void StartWithPtxas() {
    cuda_ = {.ptxas = "/bin/ptxas", .ptxas_version = "13", .libdevice_path = "", .libdevice = ""};
    StartDaemon();
  }
  CompileAnswer CompileFor(const std::string& target, const std::string& kernel) {
    v1::CompileRequest request = TestRequest({"kernel." + kernel});
    request.mutable_target()->set_name(target);
    return client_->Compile(request);
  }
};

TEST_F(CudaE2e, KernelsOfAGpuAreAssembled) {
  StartWithPtxas();
  const v1::Done done = CompileFor("sm_90", "a").done();
  EXPECT_EQ(done.shared_object(), "cubin of object of a for sm_90\n");
  EXPECT_EQ(CompileFor("sm_90", "a").done().outcome(), v1::Done::HIT);
  EXPECT_EQ(CompileFor("sm_120", "a").done().shared_object(), "object of a for sm_120\n") << "ptxas does not know it";
  EXPECT_EQ(Compile({"kernel.a"}).done().shared_object(), "object of a for x86-64-v3\n");
}

TEST_F(CudaE2e, WithoutPtxasTheyArePtx) {
  StartDaemon();
  EXPECT_EQ(CompileFor("sm_90", "a").done().shared_object(), "object of a for sm_90\n");
}

TEST_F(CudaE2e, LibdeviceGoesToTheKernelsOfGpus) {
  cuda_.libdevice = "bitcode";
  StartDaemon();
  EXPECT_EQ(CompileFor("sm_90", "a").done().shared_object(), "object of a for sm_90 with bitcode\n");
  EXPECT_EQ(Compile({"kernel.a"}).done().shared_object(), "object of a for x86-64-v3\n");
}

TEST_F(CudaE2e, AssemblingWorkersStartWithTheFirstGpuAndAreShown) {
  StartWithPtxas();
  ASSERT_TRUE(Compile({"kernel.a"}).done().has_record());
  EXPECT_EQ(client_->Status().workers_size(), 2);
  ASSERT_TRUE(CompileFor("sm_90", "a").done().has_record());
  EXPECT_EQ(client_->Status().workers_size(), 4);
  EXPECT_TRUE(Eventually([&] { return client_->IdleWorkers().size() == 4; }));
}

TEST_F(CudaE2e, KillingAnAssemblingWorkerIsRetried) {
  StartWithPtxas();
  const std::string go = folder_.File("go");
  std::thread killer([&] {
    pid_t pid = 0;
    ASSERT_TRUE(Eventually([&] {
      const v1::StatusReply status = client_->Status();
      for (const v1::WorkerStatus& w : status.workers()) {
        if (w.state() == "busy" && w.job() == "assemble") pid = static_cast<pid_t>(w.pid());
      }
      return pid > 0;
    }));
    kill(pid, SIGKILL);
    Touch(go);
  });
  v1::CompileRequest request = TestRequest({absl::StrCat("kernel.assemble_wait_for:", go, "#")});
  request.mutable_target()->set_name("sm_90");
  const CompileAnswer answer = TestClient(Address()).Compile(request);
  killer.join();
  EXPECT_EQ(answer.done().outcome(), v1::Done::COMPILED) << answer.failure().message();
  EXPECT_EQ(client_->Stats().worker_restarts(), 1u);
}

TEST_F(CudaE2e, AnAssemblingWorkerThatDiesIsReplaced) {
  StartWithPtxas();
  const std::string text = "assemble_crash_once:" + folder_.File("crashed") + "#x";
  EXPECT_TRUE(CompileFor("sm_90", text).done().has_record());
  EXPECT_EQ(client_->Stats().worker_restarts(), 1u);
  const CompileAnswer crashed = CompileFor("sm_90", "assemble_crash#z");
  EXPECT_EQ(crashed.failure().message(),
            "the assemble job cost 2 workers: killed by signal 6 (Aborted), then killed by signal 6 (Aborted)");
  const CompileAnswer failed = CompileFor("sm_90", "assemble_internal#y");
  EXPECT_EQ(failed.failure().code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_EQ(failed.failure().message(), "a fake bug");
  EXPECT_TRUE(CompileFor("sm_90", "b").done().has_record());
}

TEST_F(CompileE2e, WithoutKernelsThereIsNoSharedObject) {
  StartDaemon();
  const CompileAnswer answer = Compile({"aten.mm.default"});
  EXPECT_EQ(answer.Kinds(), "queued planning partitioned done");
  EXPECT_FALSE(answer.done().record().has_shared_object());
  EXPECT_EQ(Compile({"aten.mm.default"}).done().outcome(), v1::Done::HIT);
}

TEST_F(CompileE2e, AHitTouchesNoWorker) {
  StartDaemon();
  const std::string count = folder_.File("count");
  ASSERT_TRUE(Compile({"fake.count:" + count, "kernel.fake.count:" + count}).done().has_record());
  EXPECT_EQ(FileSize(count), 2u);
  ASSERT_TRUE(Eventually([&] { return client_->IdleWorkers().size() == 2; }));
  for (const pid_t worker : client_->IdleWorkers()) kill(worker, SIGSTOP);
  EXPECT_EQ(Compile({"fake.count:" + count, "kernel.fake.count:" + count}).done().outcome(), v1::Done::HIT);
  EXPECT_EQ(FileSize(count), 2u);
}

TEST_F(CompileE2e, KernelsAreSharedBetweenGraphs) {
  StartDaemon();
  const std::string count = folder_.File("count");
  const std::string shared = "kernel.fake.count:" + count + "#shared";
  ASSERT_TRUE(Compile({shared, "kernel.a"}).done().has_record());
  ASSERT_TRUE(Compile({shared, "kernel.b"}).done().has_record());
  EXPECT_EQ(FileSize(count), 1u);
  const v1::Counters totals = Totals();
  EXPECT_EQ(totals.kernels(), 4u);
  EXPECT_EQ(totals.kernel_hits(), 1u);
}

TEST_F(CompileE2e, ConcurrentGraphsCompileASharedKernelOnce) {
  StartDaemon();
  const std::string count = folder_.File("count");
  std::vector<std::thread> threads;
  std::atomic<int> ok = 0;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      TestClient client(Address());
      const CompileAnswer a =
          client.Compile(TestRequest({absl::StrCat("kernel.own", i), "kernel.fake.count:" + count + "#shared"}));
      ok += a.done().has_record();
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ok, 6);
  EXPECT_EQ(FileSize(count), 1u);
  EXPECT_EQ(Totals().kernels(), 12u);
  EXPECT_EQ(Totals().kernel_hits(), 5u);
}

TEST_F(CompileE2e, TwoHundredCallsFromFiftyConnectionsAreOneCompile) {
  StartDaemon();
  const std::string count = folder_.File("count"), go = folder_.File("go");
  const std::vector<std::string> ops = {"fake.count:" + count, "fake.wait_for:" + go, "kernel.a"};
  constexpr int kClients = 50, kCalls = 200;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(std::make_unique<TestClient>(Address()));
  std::vector<std::thread> threads;
  std::mutex mu;
  std::vector<CompileAnswer> answers;
  for (int i = 0; i < kCalls; ++i) {
    threads.emplace_back([&, i] {
      CompileAnswer answer = clients[static_cast<size_t>(i % kClients)]->Compile(TestRequest(ops));
      const std::lock_guard lock(mu);
      answers.push_back(std::move(answer));
    });
  }
  ASSERT_TRUE(Eventually([&] { return daemon_->life().compiles_in_flight() == kCalls; }));
  Touch(go);
  for (std::thread& t : threads) t.join();
  int compiled = 0, joined = 0;
  std::set<std::string> artifacts;
  for (const CompileAnswer& a : answers) {
    EXPECT_EQ(a.Kinds(), "queued planning partitioned kernels linking done");  // followers see all of it
    compiled += a.done().outcome() == v1::Done::COMPILED;
    joined += a.done().outcome() == v1::Done::JOINED;
    artifacts.insert(a.done().artifact());
  }
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(joined, kCalls - 1);
  EXPECT_EQ(artifacts.size(), 1u);
  EXPECT_EQ(FileSize(count), 1u);
  const v1::Counters totals = Totals();
  EXPECT_EQ(totals.lookups(), 200u);
  EXPECT_EQ(totals.misses(), 200u);
  EXPECT_EQ(totals.compiles(), 1u);
  EXPECT_EQ(totals.joined(), 199u);
  EXPECT_EQ(totals.failures(), 0u);
  EXPECT_EQ(totals.kernels(), 1u);
  EXPECT_NEAR(totals.seconds_saved(), 199 * totals.seconds_spent(), 1e-5);
}

TEST_F(CompileE2e, LookupNeverCompiles) {
  StartDaemon();
  const v1::CompileRequest request = TestRequest({"kernel.a"});
  const v1::LookupReply miss = client_->Lookup(request);
  EXPECT_FALSE(miss.hit());
  EXPECT_EQ(miss.reason(), "not in the cache");
  const v1::Done done = Compile({"kernel.a"}).done();
  EXPECT_EQ(miss.key(), done.key());
  const v1::LookupReply hit = client_->Lookup(request);
  EXPECT_TRUE(hit.hit());
  EXPECT_EQ(hit.done().outcome(), v1::Done::HIT);
  EXPECT_EQ(hit.done().artifact(), done.artifact());
  EXPECT_EQ(Totals().lookups(), 3u);
  EXPECT_EQ(Totals().hits(), 1u);
  EXPECT_EQ(Totals().misses(), 2u);
  EXPECT_EQ(Totals().compiles(), 1u);
}

TEST_F(CompileE2e, LargeBlobsAreFetchedInChunksFromAnyOffset) {
  StartDaemon();
  const std::string text(5'000'000, 'x');
  const v1::Done done = Compile({"kernel." + text.substr(0, 60'000), "kernel." + text.substr(0, 61'000)}).done();
  ASSERT_TRUE(done.has_record());
  EXPECT_TRUE(done.shared_object().empty());  // 121 kB: not inline
  std::string all, tail, none;
  std::vector<size_t> chunks;
  ASSERT_TRUE(client_->Fetch(done.record().shared_object(), 0, &all, &chunks).ok());
  EXPECT_EQ(FromProto(done.record().shared_object(), "").value(), Digest::Of(all));
  EXPECT_EQ(chunks.size(), 1u);
  ASSERT_TRUE(client_->Fetch(done.record().shared_object(), all.size() - 7, &tail).ok());
  EXPECT_EQ(tail, all.substr(all.size() - 7));
  ASSERT_TRUE(client_->Fetch(done.record().shared_object(), all.size(), &none).ok());
  EXPECT_EQ(none, "");
  EXPECT_EQ(client_->Fetch(done.record().shared_object(), all.size() + 1, &none).error_code(),
            grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(client_->Fetch(ToProto(Digest::Of("other")), 0, &none).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(client_->Fetch({}, 0, &none).error_message(), "digest.sha256: want 32 bytes, have 0");
  EXPECT_EQ(Totals().bytes_sent(), done.artifact().size() + all.size() + tail.size());
}

TEST_F(CompileE2e, ARestartKeepsEntries) {
  StartDaemon();
  const v1::Done before = Compile({"kernel.a"}).done();
  StopDaemon();
  StartDaemon();
  const v1::Done after = Compile({"kernel.a"}).done();
  EXPECT_EQ(after.outcome(), v1::Done::HIT);
  EXPECT_EQ(after.artifact(), before.artifact());
  EXPECT_EQ(client_->Stats().entries(), 1u);
}

TEST_F(CompileE2e, WorkersAndOrderDoNotShowInTheBytes) {
  std::set<std::string> artifacts, objects;
  for (const char* config : {"workers { count: 1 }", "workers { count: 3 }"}) {
    TestFolder other;
    StartDaemon(config);
    if (artifacts.empty()) Compile({"kernel.b", "kernel.z"});
    const v1::Done done = Compile({"kernel.a", "kernel.b", "kernel.c", "kernel.d"}).done();
    artifacts.insert(done.artifact());
    objects.insert(done.shared_object());
    grpc::ClientContext context;
    TestClient::SetDeadline(&context);
    v1::RemoveEntriesRequest all;
    all.set_all(true);
    v1::RemoveEntriesReply removed;
    ASSERT_TRUE(client_->admin().RemoveEntries(&context, all, &removed).ok());
    StopDaemon();
  }
  EXPECT_EQ(artifacts.size(), 1u);
  EXPECT_EQ(objects.size(), 1u);
}

TEST_F(CompileE2e, APublicationThatFailsIsAnsweredInline) {
  StartDaemon("", [](PublishStep) { return absl::ResourceExhaustedError("no space"); });
  const std::string big(70'000, 'x');
  const v1::Done done = Compile({"kernel." + big.substr(0, 60'000), "kernel." + big.substr(0, 61'000)}).done();
  EXPECT_EQ(done.outcome(), v1::Done::COMPILED);
  EXPECT_EQ(FromProto(done.record().shared_object(), "").value(), Digest::Of(done.shared_object()));
  EXPECT_EQ(client_->Stats().entries(), 0u);
}

TEST_F(CompileE2e, CapabilitiesSayWhatIsServed) {
  StartDaemon();
  grpc::ClientContext context;
  TestClient::SetDeadline(&context);
  v1::CapabilitiesRequest request;
  request.set_protocol_version(1);
  v1::Capabilities reply;
  ASSERT_TRUE(client_->compiler().GetCapabilities(&context, request, &reply).ok());
  EXPECT_EQ(reply.build(), "0123456789ab");
  EXPECT_EQ(reply.targets_size(), 5);
  EXPECT_EQ(reply.torch_versions(0), "2.11");
  EXPECT_EQ(reply.max_message_bytes(), 64u << 20);
  EXPECT_EQ(reply.max_nodes(), 200000u);
}

}  // namespace
}  // namespace kiln
