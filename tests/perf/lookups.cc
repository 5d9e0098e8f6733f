// What look-ups of Dynamo's graphs cost a daemon: how many a second, how long one takes at half that rate, and whether
// memory stays flat; "cpu us" is the daemon's processor time for one. Requests are serialised beforehand and answers
// are not parsed, so that it is the daemon's time that is measured, beside gRPC's own.
//
//   bazel run //tests/perf:lookups [-- --server ADDRESS]
//
// Without --server, of a fake_kilnd of its own, which has its store on disk and logs as kilnd does. Exit status 1 if
// fewer than 10,000 requests of 1 kB, or 5,000 digests, are answered in a second, if the 99th percentile at half of
// what was answered is 10 ms or more, or if memory grows by more than 16 MiB: on two cores without other work.
#include <fcntl.h>
#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cpp/digest.h"
#include "compiler/artifact/abi.h"
#include "compiler/artifact/call_spec.h"
#include "proto/compile.pb.h"
#include "server/testing/test_client.h"

extern char** environ;

namespace kiln {
namespace {

using Time = std::chrono::steady_clock::time_point;
using Seconds = std::chrono::duration<double>;

constexpr char kMethod[] = "/kiln.v1.Compiler/Lookup";
constexpr char kJob[] = "perf";
constexpr double kMaxGrowth = 16;  // MiB
constexpr double kMaxP99 = 10;     // ms

struct Options {
  std::string server;
  std::string log_level = "info";
  int connections = 50;
  double seconds = 4;
  int64_t count = 200000;
};

[[noreturn]] void Die(const std::string& what) {
  fprintf(stderr, "lookups: %s\n", what.c_str());
  exit(2);
}

// --- the daemon ---

class OwnDaemon {
 public:
  explicit OwnDaemon(const std::string& log_level) {
    std::vector<std::string> args = {TestProgram("fake_kilnd"),         "--listen=" + address(),
                                     "--data-dir=" + folder_.File("d"), "--workers=1",
                                     "--worker-memory-mib=1024",        "--log-level=" + log_level};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int fd : {1, 2}) {
      posix_spawn_file_actions_addopen(&actions, fd, folder_.File("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) Die("cannot start fake_kilnd");
    posix_spawn_file_actions_destroy(&actions);
  }
  ~OwnDaemon() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::string address() const { return "unix:" + folder_.File("s.sock"); }

 private:
  const TestFolder folder_;
  pid_t pid_ = -1;
};

// MiB; 0 for another host's process.
double ResidentMiB(int64_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

// Processor time so far; 0 for another host's process.
double ProcessorSeconds(int64_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(stat), {}};
  text.erase(0, text.rfind(')') + 1);
  std::istringstream fields(text);
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// --- requests ---

v1::CompileRequest TorchRequest(int nodes) {
  v1::CompileRequest request = TestRequest({"torch.nn.functional.linear", "method:view", "torch.add"}, kJob);
  request.clear_job();  // LookupRequest has it
  v1::Graph* graph = request.mutable_graph();
  graph->set_level(v1::Graph::TORCH);
  for (int i = 0; i < nodes; ++i) {
    v1::Node* node = graph->add_nodes();
    node->set_op(static_cast<uint32_t>(i % 3));
    for (int k = 0; k < 3; ++k) node->add_args()->set_value(static_cast<uint32_t>(std::max(0, i - k)));
    if (i % 3 == 1) node->add_args()->set_i(nodes);
  }
  return request;
}

grpc::ByteBuffer Bytes(const v1::LookupRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Makes look-ups of it hit.
void Put(TestClient& client, const v1::CompileRequest& torch) {
  const CompileAnswer compiled = client.Compile(TestRequest({}, kJob));
  if (compiled.done().key().empty()) Die("cannot compile: " + compiled.failure().message());
  v1::PutCallSpecRequest put;
  put.set_protocol_version(kProtocolVersion);
  *put.mutable_request() = torch;
  put.mutable_variant()->set_version(kVariantVersion);
  put.mutable_variant()->mutable_spec();
  put.set_action(compiled.done().key());
  grpc::ClientContext context;
  TestClient::SetDeadline(&context);
  v1::PutCallSpecReply reply;
  const grpc::Status status = client.compiler().PutCallSpec(&context, put, &reply);
  if (!status.ok()) Die("cannot put: " + status.error_message());
}

// --- load ---

struct Load {
  double rate = 0;  // answers a second
  int64_t answers = 0;
  double p50 = 0, p99 = 0;
};

class Connections {
 public:
  Connections(const std::string& address, int count, grpc::ByteBuffer request) : request_(std::move(request)) {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    for (int i = 0; i < count; ++i) {
      stubs_.push_back(std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args)));
    }
  }
  ~Connections() {
    queue_.Shutdown();
    void* tag;
    for (bool ok; queue_.Next(&tag, &ok);) delete static_cast<Call*>(tag);
  }

  // One call in flight a connection, until `count` are answered or the time is up.
  Load Closed(int64_t count, double seconds) {
    const Time start = Now(), end = start + Duration(seconds);
    const auto more = [&] { return begun_ < count && Now() < end; };
    begun_ = 0;
    for (size_t i = 0; i < stubs_.size(); ++i) Begin(i, Now());
    return Collect(start, [&](const Call& call) {
      if (more()) Begin(call.connection, Now());
    });
  }

  // At a given rate, whatever the answers; latency counts from when a call was due.
  Load Open(double rate, double seconds) {
    begun_ = 0;
    const Time start = Now();
    const auto count = static_cast<int64_t>(rate * seconds);
    pacer_.Set(&queue_, std::chrono::system_clock::now(), nullptr);
    ticking_ = true;
    on_tick_ = [this, start, rate, count] {
      while (begun_ < count && start + Duration(static_cast<double>(begun_) / rate) <= Now()) {
        Begin(static_cast<size_t>(begun_) % stubs_.size(), start + Duration(static_cast<double>(begun_) / rate));
      }
      return begun_ < count;
    };
    return Collect(start, [](const Call&) {});
  }

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
    grpc::ByteBuffer reply;
    grpc::Status status;
    size_t connection;
    Time due;
  };

  static Time Now() { return std::chrono::steady_clock::now(); }
  static std::chrono::nanoseconds Duration(double seconds) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(seconds));
  }

  void Begin(size_t connection, Time due) {
    auto* call = new Call;  // comes back through the queue
    call->connection = connection;
    call->due = due;
    ++begun_;
    ++in_flight_;
    call->reader = stubs_[connection]->PrepareUnaryCall(&call->context, kMethod, request_, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call);
  }

  // Until nothing is in flight.
  Load Collect(Time start, const std::function<void(const Call&)>& answered) {
    std::vector<double> latencies;
    void* tag;
    bool ok;
    while ((in_flight_ > 0 || ticking_) && queue_.Next(&tag, &ok)) {
      if (tag == nullptr) {
        ticking_ = on_tick_();
        if (ticking_) pacer_.Set(&queue_, std::chrono::system_clock::now() + std::chrono::milliseconds(1), nullptr);
        continue;
      }
      const std::unique_ptr<Call> call(static_cast<Call*>(tag));
      --in_flight_;
      if (!call->status.ok()) Die("a look-up failed: " + call->status.error_message());
      latencies.push_back(Seconds(Now() - call->due).count() * 1e3);
      answered(*call);
    }
    const Seconds took = Now() - start;
    std::sort(latencies.begin(), latencies.end());
    const auto at = [&](double share) {
      return latencies.empty() ? 0 : latencies[static_cast<size_t>(share * static_cast<double>(latencies.size() - 1))];
    };
    return {static_cast<double>(latencies.size()) / took.count(), static_cast<int64_t>(latencies.size()), at(0.5),
            at(0.99)};
  }

  const grpc::ByteBuffer request_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  grpc::CompletionQueue queue_;
  grpc::Alarm pacer_;
  std::function<bool()> on_tick_;
  bool ticking_ = false;
  int64_t begun_ = 0, in_flight_ = 0;
};

// --- the table ---

// Whether it is as fast as it should be.
bool Measure(const char* name, TestClient& client, const std::string& address, const Options& options,
             const v1::LookupRequest& lookup, double least) {
  constexpr int64_t kAny = INT64_MAX;
  Connections connections(address, options.connections, Bytes(lookup));
  connections.Closed(kAny, 0.5);  // connects
  const int64_t pid = client.Status().pid();
  const double before = ProcessorSeconds(pid);
  const Load closed = connections.Closed(kAny, options.seconds);
  const double cost = (ProcessorSeconds(pid) - before) / static_cast<double>(closed.answers) * 1e6;
  const Load open = connections.Open(closed.rate / 2, options.seconds);
  printf("%-10s %6zu %9.0f %8.0f %8.2f %8.2f %11.0f %8.2f %8.2f\n", name, lookup.ByteSizeLong(), closed.rate, cost,
         closed.p50, closed.p99, open.rate, open.p50, open.p99);
  return closed.rate >= least && open.p99 < kMaxP99;
}

bool MeasureMemory(TestClient& client, const std::string& address, const Options& options,
                   const v1::LookupRequest& lookup) {
  const int64_t pid = client.Status().pid();
  Connections connections(address, options.connections, Bytes(lookup));
  connections.Closed(options.count / 20, 600);
  const double before = ResidentMiB(pid);
  connections.Closed(options.count, 600);
  const double after = ResidentMiB(pid);
  printf("memory: %.1f MiB, after %lld look-ups %.1f MiB\n", before, static_cast<long long>(options.count), after);
  return after - before < kMaxGrowth;
}

int Run(const Options& options) {
  std::unique_ptr<OwnDaemon> own;
  if (options.server.empty()) own = std::make_unique<OwnDaemon>(options.log_level);
  const std::string address = own ? own->address() : options.server;
  TestClient client(address);
  const v1::CompileRequest small = TorchRequest(50), large = TorchRequest(700);
  v1::LookupRequest whole, digest;
  for (v1::LookupRequest* lookup : {&whole, &digest}) {
    lookup->set_protocol_version(kProtocolVersion);
    lookup->mutable_job()->set_job(kJob);
  }
  *whole.mutable_request() = small;
  digest.set_request_digest(DigestOf(large.SerializeAsString()).sha256());
  for (const v1::CompileRequest* request : {&small, &large}) Put(client, *request);
  if (!client.Lookup(small).hit() || !client.Lookup(large).hit()) Die("what was put is not found");

  printf("%d connections; the digest is of a request of %zu bytes\n\n", options.connections, large.ByteSizeLong());
  printf("%-10s %6s %9s %8s %8s %8s %11s %8s %8s\n", "look-ups", "bytes", "a second", "cpu us", "p50 ms", "p99 ms",
         "half of it", "p50 ms", "p99 ms");
  const bool by_request = Measure("whole", client, address, options, whole, 10000);
  const bool by_digest = Measure("by digest", client, address, options, digest, 5000);
  const bool flat = MeasureMemory(client, address, options, digest);
  printf("whole as fast as it should be: %s; by digest: %s; memory flat: %s\n", by_request ? "yes" : "NO",
         by_digest ? "yes" : "NO", flat ? "yes" : "NO");
  return by_request && by_digest && flat ? 0 : 1;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::Options options;
  CLI::App app("Look-ups of Dynamo's graphs, under load", "lookups");
  app.add_option("--server", options.server, "unix:/path or host:port; default: a daemon of its own");
  app.add_option("--log-level", options.log_level, "of that daemon")->capture_default_str();
  app.add_option("--connections", options.connections)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--seconds", options.seconds, "of each measurement")->capture_default_str();
  app.add_option("--count", options.count, "look-ups between the two readings of memory")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return kiln::Run(options);
}
