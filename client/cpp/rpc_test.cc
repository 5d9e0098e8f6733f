#include "client/cpp/rpc.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "absl/time/clock.h"
#include "client/cpp/digest.h"
#include "proto/service.grpc.pb.h"

namespace kiln {
namespace {

// What a server answers.
struct Script {
  uint32_t protocol_version = 1;
  v1::LookupReply lookup;
  std::vector<v1::CompileEvent> events;
  grpc::Status end;
  bool hang = false;
  std::map<std::string, std::string> blobs;
};

// Follows the script that a test sets; its threads and the test's take turns.
class FakeServer : public v1::Compiler::Service {
 public:
  grpc::Status GetCapabilities(grpc::ServerContext*, const v1::CapabilitiesRequest*, v1::Capabilities* reply) override {
    ++capability_calls;
    reply->set_protocol_version(script().protocol_version);
    reply->set_build("0123456789ab");
    return grpc::Status::OK;
  }
  grpc::Status Lookup(grpc::ServerContext*, const v1::LookupRequest*, v1::LookupReply* reply) override {
    *reply = script().lookup;
    return grpc::Status::OK;
  }
  grpc::Status Compile(grpc::ServerContext* context, const v1::CompileRequest* request,
                       grpc::ServerWriter<v1::CompileEvent>* writer) override {
    train_jobs += request->job().job() == "train";
    const Script s = script();
    for (const v1::CompileEvent& event : s.events) writer->Write(event);
    while (s.hang && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    cancelled = context->IsCancelled();
    return s.end;
  }
  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::Chunk>* writer) override {
    ++fetches;
    const Script s = script();
    const auto found = s.blobs.find(request->digest().sha256());
    if (found == s.blobs.end()) return {grpc::StatusCode::NOT_FOUND, "no such blob"};
    for (size_t i = 0; i < found->second.size(); i += 1000) {
      v1::Chunk chunk;
      chunk.set_data(found->second.substr(i, 1000));
      writer->Write(chunk);
    }
    return grpc::Status::OK;
  }

  template <typename F>
  void Change(F change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    change(script_);
  }
  v1::Digest Add(const std::string& blob) {
    const v1::Digest digest = DigestOf(blob);
    Change([&](Script& s) { s.blobs[digest.sha256()] = blob; });
    return digest;
  }

  std::atomic<int> capability_calls{0}, fetches{0}, train_jobs{0};
  std::atomic<bool> cancelled{false};

 private:
  Script script() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return script_;
  }
  mutable std::mutex mutex_;
  Script script_;
};

class RpcTest : public testing::Test {
 protected:
  void SetUp() override {
    char dir[] = "/tmp/kilnXXXXXX";  // a socket's path is at most 107 bytes
    ASSERT_NE(mkdtemp(dir), nullptr);
    dir_ = dir;
    Start();
  }
  void TearDown() override {
    Stop();
    unlink((dir_ + "/s").c_str());
    rmdir(dir_.c_str());
  }
  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void Stop() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_ = nullptr;
  }
  std::string address() const { return "unix:" + dir_ + "/s"; }
  static CallOptions Soon(absl::Duration timeout = absl::Seconds(20)) { return {.deadline = absl::Now() + timeout}; }

  // An event stream that ends with `done` naming these blobs.
  v1::Done AddDone(const std::string& artifact, const std::string& object, bool inlined) {
    v1::CompileEvent event;
    v1::Done* done = event.mutable_done();
    *done->mutable_record()->mutable_artifact() = service_.Add(artifact);
    *done->mutable_record()->mutable_shared_object() = service_.Add(object);
    if (inlined) {
      done->set_artifact(artifact);
      done->set_shared_object(object);
    }
    service_.Change([&](Script& s) { s.events.push_back(event); });
    return *done;
  }

  std::string dir_;
  FakeServer service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(RpcTest, AsksForCapabilitiesOnceAConnection) {
  Client client(address());
  EXPECT_EQ(client.GetCapabilities(Soon())->build(), "0123456789ab");
  EXPECT_EQ(client.GetCapabilities(Soon())->build(), "0123456789ab");
  EXPECT_EQ(service_.capability_calls, 1);
  client.Reset();
  EXPECT_TRUE(client.GetCapabilities(Soon()).ok());
  EXPECT_EQ(service_.capability_calls, 2);
}

TEST_F(RpcTest, RefusesAnotherProtocolNamingBoth) {
  service_.Change([](Script& s) { s.protocol_version = 7; });
  const absl::Status status = Client(address()).GetCapabilities(Soon()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the server at " + address() + " speaks protocol version 7, this client 1");
}

TEST_F(RpcTest, CompileReportsEventsAndFetchesWhatIsMissing) {
  v1::CompileEvent planning, kernels;
  planning.mutable_planning();
  kernels.mutable_kernels()->set_total(3);
  service_.Change([&](Script& s) { s.events = {planning, kernels}; });
  const std::string artifact(5000, 'a'), object(70000, 'o');
  AddDone(artifact, object, false);
  Client client(address());
  std::vector<int> seen;
  v1::CompileRequest request;
  request.mutable_job()->set_job("train");
  absl::StatusOr<v1::Done> done =
      client.Compile(request, Soon(), [&](const v1::CompileEvent& e) { seen.push_back(e.kind_case()); });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(seen, (std::vector<int>{v1::CompileEvent::kPlanning, v1::CompileEvent::kKernels}));
  EXPECT_EQ(done->artifact(), artifact);
  EXPECT_EQ(done->shared_object(), object);
  EXPECT_EQ(service_.train_jobs, 1);
  EXPECT_EQ(service_.fetches, 2);
  ASSERT_TRUE(client.Compile(request, Soon(), nullptr).ok());
  EXPECT_EQ(service_.fetches, 2) << "the client keeps blobs";
}

TEST_F(RpcTest, InlineBlobsAreCheckedNotFetched) {
  AddDone("artifact", "object", true);
  Client client(address());
  EXPECT_EQ(client.Compile({}, Soon(), nullptr)->artifact(), "artifact");
  EXPECT_EQ(service_.fetches, 0);
  service_.Change([](Script& s) { s.events[0].mutable_done()->set_artifact("artifacT"); });
  EXPECT_EQ(client.Compile({}, Soon(), nullptr).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(RpcTest, LookupHitHasBlobs) {
  const v1::Done done = AddDone("artifact", "object", false);
  service_.Change([&](Script& s) {
    s.lookup.set_hit(true);
    *s.lookup.mutable_done() = done;
  });
  Client client(address());
  EXPECT_EQ(client.Lookup({}, Soon())->done().shared_object(), "object");
  service_.Change([](Script& s) {
    s.lookup.Clear();
    s.lookup.set_reason("never seen");
  });
  EXPECT_EQ(client.Lookup({}, Soon())->reason(), "never seen");
}

// A server may be wrong, or hold what another client made up.
TEST_F(RpcTest, ACallSpecThatDoesNotFitItsCodeIsDataLoss) {
  v1::Artifact artifact;
  artifact.mutable_signature()->set_num_inputs(2);
  artifact.add_functions();
  const v1::Done done = AddDone(artifact.SerializeAsString(), "object", false);
  service_.Change([&](Script& s) {
    s.lookup.set_hit(true);
    *s.lookup.mutable_done() = done;
    s.lookup.mutable_variant()->mutable_spec()->set_num_inputs(2);
  });
  Client client(address());
  EXPECT_TRUE(client.Lookup({}, Soon()).ok());
  service_.Change([&](Script& s) { s.lookup.mutable_variant()->mutable_spec()->set_num_inputs(3); });
  EXPECT_EQ(client.Lookup({}, Soon()).status().message(),
            "the entry does not fit its code: spec.num_inputs: is 3, the compiled code has 2");
  service_.Change([&](Script& s) {
    s.lookup.mutable_variant()->mutable_spec()->set_num_inputs(2);
    s.lookup.mutable_variant()->add_predicates();
  });
  EXPECT_EQ(client.Lookup({}, Soon()).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(RpcTest, ChangedBlobIsDataLoss) {
  const v1::Digest digest = service_.Add("blob");
  service_.Change([&](Script& s) { s.blobs[digest.sha256()] = "blop"; });
  EXPECT_EQ(Client(address()).Fetch(digest, Soon()).status().code(), absl::StatusCode::kDataLoss);
  service_.Change([&](Script& s) { s.blobs[digest.sha256()] = std::string(100000, 'x'); });
  EXPECT_EQ(Client(address()).Fetch(digest, Soon()).status().code(), absl::StatusCode::kDataLoss);
  service_.Change([](Script& s) { s.blobs.clear(); });
  EXPECT_EQ(Client(address()).Fetch(digest, Soon()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RpcTest, FailedEventCarriesCodeAndNode) {
  v1::CompileEvent event;
  event.mutable_failed()->set_code(3);
  event.mutable_failed()->set_message("graph.nodes[4]: bad dtype");
  event.mutable_failed()->set_node(4);
  service_.Change([&](Script& s) { s.events = {event}; });
  const absl::Status status = Client(address()).Compile({}, Soon(), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "graph.nodes[4]: bad dtype");
  ASSERT_TRUE(FailureOf(status).has_value());
  EXPECT_EQ(FailureOf(status)->node(), 4);
  EXPECT_FALSE(FailureOf(absl::InternalError("")).has_value());
}

TEST_F(RpcTest, RefusalAndEmptyStreamAreErrors) {
  service_.Change([](Script& s) { s.end = {grpc::StatusCode::RESOURCE_EXHAUSTED, "queue is full"}; });
  EXPECT_EQ(Client(address()).Compile({}, Soon(), nullptr).status(), absl::ResourceExhaustedError("queue is full"));
  service_.Change([](Script& s) { s.end = grpc::Status::OK; });
  EXPECT_EQ(Client(address()).Compile({}, Soon(), nullptr).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RpcTest, DeadlineAndCancelEndACompile) {
  service_.Change([](Script& s) { s.hang = true; });
  Client client(address());
  EXPECT_EQ(client.Compile({}, Soon(absl::Milliseconds(100)), nullptr).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  CallOptions options = Soon();
  const absl::Time begin = absl::Now();
  options.cancelled = [&] { return absl::Now() > begin + absl::Milliseconds(20); };
  EXPECT_EQ(client.Compile({}, options, nullptr).status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  Stop();
  EXPECT_TRUE(service_.cancelled);
}

TEST_F(RpcTest, NoServerIsUnavailableAtOnceAndTheNextCallFindsANewOne) {
  Client client(address());
  ASSERT_TRUE(client.GetCapabilities(Soon()).ok());
  Stop();
  client.Reset();
  const absl::Time begin = absl::Now();
  EXPECT_EQ(client.GetCapabilities(Soon()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  Start();
  EXPECT_TRUE(client.GetCapabilities(Soon()).ok());
}

TEST_F(RpcTest, ThreadsShareAClient) {
  AddDone("artifact", std::string(100000, 'o'), false);
  Client client(address());
  std::vector<std::thread> threads;
  std::atomic<int> ok{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { ok += client.Compile({}, Soon(), nullptr).ok(); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ok, 8);
}

}  // namespace
}  // namespace kiln
