// What goes wrong, through a whole daemon: crashes, stuck workers, bad requests, clients that go away, draining.
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/testing/test_daemon.h"

namespace kiln {
namespace {

using FailureE2e = DaemonTest;

int Code(absl::StatusCode code) { return static_cast<int>(code); }

TEST_F(FailureE2e, ACrashIsRetriedAndTheCompileSucceeds) {
  StartDaemon();
  EXPECT_EQ(
      Compile({"fake.crash_once:" + folder_.File("p"), "kernel.fake.crash_once:" + folder_.File("k")}).done().outcome(),
      v1::Done::COMPILED);
  EXPECT_EQ(client_->Stats().worker_restarts(), 2u);
  EXPECT_EQ(client_->Stats().negative(), 0u);
}

TEST_F(FailureE2e, TwoCrashesMakeANegativeEntry) {
  StartDaemon();
  const std::string count = folder_.File("count");
  const CompileAnswer first = Compile({"fake.count:" + count, "fake.crash"});
  ASSERT_TRUE(first.status.ok());
  EXPECT_EQ(first.failure().code(), Code(absl::StatusCode::kInternal));
  EXPECT_EQ(first.failure().message(),
            "the plan job cost 2 workers: killed by signal 6 (Aborted), then killed by signal 6 (Aborted)");
  EXPECT_FALSE(first.failure().negative());
  EXPECT_EQ(first.failure().reproducer().size(), 64u);
  EXPECT_EQ(FileSize(count), 2u);

  const CompileAnswer second = Compile({"fake.count:" + count, "fake.crash"});
  EXPECT_EQ(second.Kinds(), "failed");
  EXPECT_TRUE(second.failure().negative());
  EXPECT_EQ(second.failure().message(), first.failure().message());
  EXPECT_EQ(second.failure().reproducer(), first.failure().reproducer());
  EXPECT_EQ(FileSize(count), 2u);
  EXPECT_EQ(client_->Stats().negative(), 1u);
  EXPECT_EQ(Totals().failures(), 2u);
  EXPECT_EQ(Totals().compiles(), 1u);
  EXPECT_NE(client_->Lookup(TestRequest({"fake.count:" + count, "fake.crash"})).reason().find("it failed before"),
            std::string::npos);
}

TEST_F(FailureE2e, TheReproducerIsTheRequest) {
  StartDaemon();
  const v1::Failure failure = Compile({"fake.crash"}).failure();
  grpc::ClientContext context;
  TestClient::SetDeadline(&context);
  v1::ListEntriesRequest request;
  request.set_negative(true);
  v1::ListEntriesReply entries;
  ASSERT_TRUE(client_->admin().ListEntries(&context, request, &entries).ok());
  ASSERT_EQ(entries.entries_size(), 1);
  v1::Digest digest;
  digest.set_sha256(absl::HexStringToBytes(failure.reproducer()));
  v1::CompileRequest canonical = TestRequest({"fake.crash"});
  canonical.clear_job();
  canonical.mutable_options()->set_memory_budget(1);
  digest.set_size(canonical.ByteSizeLong());
  std::string blob;
  ASSERT_TRUE(client_->Fetch(digest, 0, &blob).ok());
  EXPECT_EQ(blob, canonical.SerializeAsString());
}

TEST_F(FailureE2e, ACrashingKernelOrLinkIsACrashToo) {
  StartDaemon();
  const CompileAnswer kernel = Compile({"kernel.good", "kernel.fake.crash"});
  EXPECT_NE(kernel.failure().message().find("the codegen job cost 2 workers"), std::string::npos);
  const CompileAnswer link = Compile({"kernel.fake.link_crash"});
  EXPECT_NE(link.failure().message().find("the link job cost 2 workers"), std::string::npos);
  EXPECT_EQ(client_->Stats().negative(), 2u);
  // What was made before is kept.
  EXPECT_EQ(Compile({"kernel.good"}).done().outcome(), v1::Done::COMPILED);
  EXPECT_EQ(Totals().kernel_hits(), 1u);
}

TEST_F(FailureE2e, NegativeEntriesExpire) {
  StartDaemon("cache { negative_ttl_seconds: 0.3 }");
  EXPECT_FALSE(Compile({"fake.crash"}).failure().negative());
  EXPECT_TRUE(Eventually([&] { return !Compile({"fake.crash"}).failure().negative(); }));
}

TEST_F(FailureE2e, ErrorsOfTheCompilerNameTheNodeAndAreNotRemembered) {
  StartDaemon();
  const CompileAnswer answer = Compile({"fake.invalid:7"});
  EXPECT_EQ(answer.failure().code(), Code(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(answer.failure().message(), "nodes[7]: fake");
  EXPECT_EQ(answer.failure().node(), 7);
  EXPECT_EQ(answer.failure().reproducer(), "");
  EXPECT_EQ(client_->Stats().negative(), 0u);
}

TEST_F(FailureE2e, OurBugsAreKeptWithAReproducer) {
  StartDaemon();
  const CompileAnswer answer = Compile({"fake.internal"});
  EXPECT_EQ(answer.failure().code(), Code(absl::StatusCode::kInternal));
  EXPECT_EQ(answer.failure().reproducer().size(), 64u);
  EXPECT_EQ(client_->Stats().worker_restarts(), 0u);
}

TEST_F(FailureE2e, AStoppedWorkerIsEndedByItsDeadline) {
  StartDaemon("workers { count: 1 job_seconds: 0.4 }");
  const CompileAnswer answer = Compile({"fake.stop"});
  EXPECT_EQ(answer.failure().code(), Code(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(client_->Stats().worker_restarts(), 2u);
  EXPECT_EQ(Compile({"kernel.a"}).done().outcome(), v1::Done::COMPILED);
}

TEST_F(FailureE2e, KillingAWorkerInACompileIsRetried) {
  StartDaemon();
  const std::string go = folder_.File("go");
  std::thread killer([&] {
    pid_t pid = 0;
    ASSERT_TRUE(Eventually([&] {
      const v1::StatusReply status = client_->Status();
      for (const v1::WorkerStatus& w : status.workers()) {
        if (w.state() == "busy" && w.job() == "plan") pid = static_cast<pid_t>(w.pid());
      }
      return pid > 0;
    }));
    kill(pid, SIGKILL);
    Touch(go);
  });
  TestClient other(Address());
  const CompileAnswer answer = other.Compile(TestRequest({"fake.wait_for:" + go}));
  killer.join();
  EXPECT_EQ(answer.done().outcome(), v1::Done::COMPILED);
  EXPECT_EQ(client_->Stats().worker_restarts(), 1u);
}

TEST_F(FailureE2e, AClientThatGoesAwayEndsItsCompile) {
  StartDaemon("workers { count: 1 }");
  const CompileAnswer answer = client_->Compile(TestRequest({"fake.hang"}), absl::Milliseconds(400));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return daemon_->life().compiles_in_flight() == 0; }));
  EXPECT_EQ(client_->Stats().worker_restarts(), 0u);
  EXPECT_EQ(client_->Stats().negative(), 0u);
  EXPECT_EQ(Compile({"kernel.a"}).done().outcome(), v1::Done::COMPILED);
}

TEST_F(FailureE2e, ALeaderThatGoesAwayLeavesTheCompileToTheOthers) {
  StartDaemon("workers { count: 1 }");
  const std::string go = folder_.File("go"), count = folder_.File("count");
  const v1::CompileRequest request = TestRequest({"fake.count:" + count, "fake.wait_for:" + go});
  std::thread leader([&] {
    TestClient client(Address());
    EXPECT_EQ(client.Compile(request, absl::Milliseconds(700)).status.error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  });
  ASSERT_TRUE(Eventually([&] { return FileSize(count) == 1; }));
  std::atomic<int> outcome = 0;
  std::thread follower([&] {
    TestClient client(Address());
    outcome = client.Compile(request).done().outcome();
  });
  ASSERT_TRUE(Eventually([&] { return daemon_->life().compiles_in_flight() == 2; }));
  leader.join();
  Touch(go);
  follower.join();
  EXPECT_EQ(outcome, v1::Done::JOINED);
  EXPECT_EQ(FileSize(count), 1u);
}

TEST_F(FailureE2e, TheQueueIsBounded) {
  StartDaemon("limits { queue: 1 } workers { count: 1 }");
  const std::string go = folder_.File("go");
  std::thread first([&] {
    TestClient client(Address());
    EXPECT_EQ(client.Compile(TestRequest({"fake.wait_for:" + go})).done().outcome(), v1::Done::COMPILED);
  });
  ASSERT_TRUE(Eventually([&] { return client_->Status().running() == 1; }));
  const CompileAnswer refused = Compile({"kernel.other"});
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.status.error_message(),
            "compiles waiting or running: 1, the server's bound is 1; try again after 2s");
  EXPECT_EQ(refused.pushback_ms, "2000");
  Touch(go);
  first.join();
}

TEST_F(FailureE2e, DrainingFinishesWhatRunsAndRefusesWhatComes) {
  StartDaemon();
  ASSERT_TRUE(Compile({"kernel.cached"}).done().has_record());
  const std::string go = folder_.File("go");
  std::atomic<int> outcome = 0;
  std::thread running([&] {
    TestClient client(Address());
    outcome = client.Compile(TestRequest({"fake.wait_for:" + go})).done().outcome();
  });
  ASSERT_TRUE(Eventually([&] { return client_->Status().running() == 1; }));
  std::thread daemon([&] { EXPECT_TRUE(daemon_->Run()); });
  daemon_->life().RequestExit();
  const CompileAnswer refused = Compile({"kernel.new"});
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.pushback_ms, "5000");
  EXPECT_EQ(client_->Status().state(), "draining");
  EXPECT_EQ(Compile({"kernel.cached"}).done().outcome(), v1::Done::HIT);  // hits are still served
  Touch(go);
  running.join();
  daemon.join();
  EXPECT_EQ(outcome, v1::Done::COMPILED);
}

TEST_F(FailureE2e, TheTimeToDrainIsBounded) {
  StartDaemon("drain_seconds: 0.2");
  std::thread running([&] {
    TestClient client(Address());
    EXPECT_NE(client.Compile(TestRequest({"fake.hang"})).Kinds(), "done");
  });
  ASSERT_TRUE(Eventually([&] { return client_->Status().running() == 1; }));
  daemon_->life().RequestExit();
  EXPECT_FALSE(daemon_->Run());
  StopDaemon();
  running.join();
}

TEST_F(FailureE2e, VersionsAreRefusedNamingBoth) {
  StartDaemon();
  v1::CompileRequest request = TestRequest({"kernel.a"});
  request.set_protocol_version(9);
  const CompileAnswer answer = client_->Compile(request);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(answer.status.error_message(),
            "protocol_version: the client's is 9, the server's is 1: install the same kiln on both sides");
  grpc::ClientContext context;
  TestClient::SetDeadline(&context);
  v1::CapabilitiesRequest capabilities;
  v1::Capabilities reply;
  EXPECT_EQ(client_->compiler().GetCapabilities(&context, capabilities, &reply).error_message(),
            "protocol_version: the client's is 0, the server's is 1: install the same kiln on both sides");
}

TEST_F(FailureE2e, GarbageBytesAreRefusedAndTheDaemonGoesOn) {
  StartDaemon("limits { message_bytes: 1000000 }");
  for (const char* method : {"/kiln.v1.Compiler/Compile", "/kiln.v1.Compiler/Lookup", "/kiln.v1.Compiler/Fetch",
                             "/kiln.v1.Compiler/GetCapabilities", "/kiln.v1.Admin/RemoveEntries"}) {
    EXPECT_FALSE(client_->CallRaw(method, "\xff\xff\xff garbage").ok()) << method;
    EXPECT_FALSE(client_->CallRaw(method, "\x0a\x7f").ok()) << method;
    EXPECT_FALSE(client_->CallEmpty(method).ok()) << method;
  }
  v1::LookupRequest lookup;
  *lookup.mutable_request() = TestRequest({"kernel.a", "kernel.b"});
  const std::string whole = lookup.SerializeAsString();
  int refused = 0;
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    refused += !client_->CallRaw("/kiln.v1.Compiler/Lookup", whole.substr(0, cut)).ok();
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()) / 2);
  EXPECT_EQ(client_->CallRaw("/kiln.v1.Compiler/Compile", std::string(1'000'001, 'x')).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(client_->CallRaw("/kiln.v1.Compiler/Nothing", "").error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Compile({"kernel.a"}).done().outcome(), v1::Done::COMPILED);
}

// The most memory this process has held so far, in bytes.
size_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) << 10;
}

// Two bytes on the wire are a hundred in memory.
TEST_F(FailureE2e, AMessageOfManyEmptyPartsIsRefusedBeforeItIsParsed) {
  StartDaemon();
  std::string graph;
  while (graph.size() < (60 << 20)) graph.append("\x3a\x00", 2);  // Graph.nodes
  v1::CompileRequest request = TestRequest({"kernel.a"});
  std::string bytes = request.SerializeAsString();
  bytes += '\x12';  // CompileRequest.graph, which is merged with the first
  for (size_t left = graph.size(); left > 0; left >>= 7) bytes += static_cast<char>((left & 0x7f) | (left > 0x7f) << 7);
  bytes += graph;
  const size_t before = PeakMemory();
  const grpc::Status status = client_->CallRaw("/kiln.v1.Compiler/Compile", bytes);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_LT(PeakMemory() - before, 600u << 20);
}

TEST_F(FailureE2e, BoundsAreNamed) {
  StartDaemon("limits { nodes: 10 symbols: 10 }");
  v1::CompileRequest request = TestRequest({"kernel.a"});
  for (int i = 0; i < 1'000'000; ++i) request.mutable_graph()->mutable_syms()->add_symbols();
  const CompileAnswer answer = client_->Compile(request);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(answer.status.error_message(), "graph.syms.symbols: 1000000, the server's bound is 10");
}

// Flips a bit in the middle of every file of the store that holds blobs; how many.
int FlipBits(const std::string& dir) {
  int flipped = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() != ".blob") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(entry.file_size() / 2);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
    ++flipped;
  }
  return flipped;
}

TEST_F(FailureE2e, AFlippedBitIsAMissRepairedAndCounted) {
  StartDaemon();
  // Text that does not compress, so that it fills most of its file.
  std::string text;
  std::mt19937 random(1);
  for (int i = 0; i < 40'000; ++i) text.push_back(static_cast<char>('!' + random() % 90));
  const std::string first = Compile({"kernel." + text}).done().shared_object();
  ASSERT_EQ(first.size(), text.size() + std::string("object of  for x86-64-v3\n").size());
  StopDaemon();
  StartDaemon();  // moves what was in the write-ahead log to files of their own
  StopDaemon();
  ASSERT_GT(FlipBits(folder_.File("data/store/db")), 0);
  StartDaemon();
  const v1::Done repaired = Compile({"kernel." + text}).done();
  EXPECT_EQ(repaired.outcome(), v1::Done::COMPILED);
  EXPECT_EQ(repaired.shared_object(), first);
  EXPECT_GE(client_->Stats().corrupt(), 1u);
  EXPECT_EQ(Compile({"kernel." + text}).done().outcome(), v1::Done::HIT);
}

}  // namespace
}  // namespace kiln
