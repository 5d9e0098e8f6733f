// kilnctl prewarm FILE: compiles ahead what a job recorded.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/table.h"
#include "client/cpp/digest.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "proto/service.grpc.pb.h"

namespace kiln {
namespace {

struct Recording {
  std::vector<v1::CompileRequest> requests;
  std::vector<v1::PutCallSpecRequest> call_specs;  // whose `action` is the digest of one of the requests
  bool cut_short = false;                          // the job ended while it wrote the last one
};

absl::StatusOr<Recording> Read(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  google::protobuf::io::FileInputStream in(fd);
  in.SetCloseOnDelete(true);
  Recording recording;
  bool clean_end = false;
  while (true) {
    v1::Recorded recorded;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&recorded, &in, &clean_end)) break;
    if (recorded.has_compile()) recording.requests.push_back(std::move(*recorded.mutable_compile()));
    if (recorded.has_call_spec()) recording.call_specs.push_back(std::move(*recorded.mutable_call_spec()));
  }
  recording.cut_short = !clean_end;
  if (recording.requests.empty() && recording.call_specs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a recording of kiln's"));
  }
  return recording;
}

// Shared by the threads that send.
class Progress {
 public:
  Progress(Cli& cli, size_t total) : cli_(cli), total_(total) {}

  void Finished(size_t index, const std::string& outcome, const std::string& error) {
    const std::lock_guard lock(mu_);
    ++counts_[outcome];
    ++done_;
    if (!error.empty()) errors_[index] = error;
    Show();
  }
  void Kernels(uint32_t done, uint32_t total) {
    const std::lock_guard lock(mu_);
    kernels_ = absl::StrCat(", kernels ", done, "/", total);
    Show();
  }

  // A CallSpec, by its number.
  void Put(size_t index, const std::string& error) {
    ++counts_[error.empty() ? "put" : "failed"];
    if (!error.empty()) put_errors_[index] = error;
  }

  uint64_t Count(const std::string& outcome) { return counts_[outcome]; }
  const std::map<size_t, std::string>& errors() const { return errors_; }
  const std::map<size_t, std::string>& put_errors() const { return put_errors_; }
  void Clear() {
    if (Shown()) cli_.out << "\r\x1b[K" << std::flush;
  }

 private:
  bool Shown() const { return cli_.terminal && !cli_.json; }
  void Show() {
    if (Shown()) cli_.out << "\r\x1b[K" << done_ << "/" << total_ << " graphs" << kernels_ << std::flush;
  }

  Cli& cli_;
  const size_t total_;
  std::mutex mu_;
  size_t done_ = 0;
  std::string kernels_;
  std::map<std::string, uint64_t> counts_;
  std::map<size_t, std::string> errors_;  // by the request's number
  std::map<size_t, std::string> put_errors_;
};

const char* OutcomeName(v1::Done::Outcome outcome) {
  return outcome == v1::Done::HIT ? "hits" : outcome == v1::Done::JOINED ? "joined" : "compiled";
}

// Sends one request and follows its events to the end. The compiled code's key; empty if it failed.
std::string Send(v1::Compiler::Stub& stub, const v1::CompileRequest& request, size_t index, Progress& progress) {
  grpc::ClientContext context;
  const auto reader = stub.Compile(&context, request);
  std::string outcome = "failed", error, key;
  for (v1::CompileEvent event; reader->Read(&event);) {
    if (event.has_kernels()) progress.Kernels(event.kernels().done(), event.kernels().total());
    if (event.has_done()) {
      outcome = OutcomeName(event.done().outcome());
      key = event.done().key();
    }
    if (event.has_failed()) error = event.failed().message();
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    outcome = "failed";
    error = status.error_message();
  } else if (outcome == "failed" && error.empty()) {
    error = "the server gave no answer";
  }
  progress.Finished(index, outcome, error);
  return key;
}

// The compiled code's keys, one a request.
std::vector<std::string> SendAll(v1::Compiler::Stub& stub, const Recording& recording, uint32_t parallel,
                                 Progress& progress) {
  std::vector<std::string> keys(recording.requests.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < keys.size();) {
      keys[i] = Send(stub, recording.requests[i], i, progress);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (uint32_t t = 0; t < std::min<size_t>(parallel, keys.size()); ++t) threads.emplace_back(work);
  }
  return keys;
}

// Lets look-ups of the graphs hit; of those whose code is there.
void PutCallSpecs(v1::Compiler::Stub& stub, const Recording& recording, const std::vector<std::string>& keys,
                  Progress& progress) {
  std::map<std::string, std::string> key_of;  // by the digest of the request
  for (size_t i = 0; i < keys.size(); ++i) {
    std::string bytes;
    {
      google::protobuf::io::StringOutputStream out(&bytes);
      google::protobuf::io::CodedOutputStream coded(&out);
      coded.SetSerializationDeterministic(true);
      recording.requests[i].SerializeToCodedStream(&coded);
    }
    key_of[DigestOf(bytes).sha256()] = keys[i];
  }
  for (size_t i = 0; i < recording.call_specs.size(); ++i) {
    v1::PutCallSpecRequest request = recording.call_specs[i];
    const auto key = key_of.find(request.action());
    if (request.variant().refused().empty() && (key == key_of.end() || key->second.empty())) continue;
    request.set_action(key == key_of.end() ? "" : key->second);
    grpc::ClientContext context;
    v1::PutCallSpecReply reply;
    const grpc::Status status = stub.PutCallSpec(&context, request, &reply);
    progress.Put(i, status.ok() ? "" : status.error_message());
  }
}

void Report(Cli& cli, const Recording& recording, Progress& progress, double seconds) {
  progress.Clear();
  if (cli.json) {
    cli.out << "{\"requests\":" << recording.requests.size() << ",\"hits\":" << progress.Count("hits")
            << ",\"compiled\":" << progress.Count("compiled") << ",\"joined\":" << progress.Count("joined")
            << ",\"failed\":" << progress.Count("failed") << ",\"lookups\":" << progress.Count("put")
            << ",\"cut_short\":" << (recording.cut_short ? "true" : "false") << ",\"seconds\":" << seconds
            << ",\"failures\":[";
    const char* comma = "";
    for (const auto& [index, error] : progress.errors()) {
      cli.out << comma << "{\"request\":" << index << ",\"message\":" << JsonString(error) << "}";
      comma = ",";
    }
    for (const auto& [index, error] : progress.put_errors()) {
      cli.out << comma << "{\"lookup\":" << index << ",\"message\":" << JsonString(error) << "}";
      comma = ",";
    }
    cli.out << "]}\n";
    return;
  }
  cli.out << recording.requests.size() << " graphs in " << Seconds(seconds) << ": " << progress.Count("compiled")
          << " compiled, " << progress.Count("hits") << " in the cache already, " << progress.Count("joined")
          << " joined, " << progress.Count("failed") << " failed; " << progress.Count("put") << " ready for look-ups\n";
  for (const auto& [index, error] : progress.errors()) cli.err << "graph " << index << ": " << Printable(error) << "\n";
  for (const auto& [index, error] : progress.put_errors()) {
    cli.err << "look-up " << index << ": " << Printable(error) << "\n";
  }
  if (recording.cut_short) cli.err << "kilnctl: the recording ends within a graph; that one is left out\n";
}

void Run(Cli& cli, const std::string& file, uint32_t parallel) {
  const absl::StatusOr<Recording> recording = Read(file);
  if (!recording.ok()) {
    cli.err << "kilnctl: " << recording.status().message() << "\n";
    cli.status = kFailed;
    return;
  }
  // Is anybody there? Compiles take any time; this does not.
  v1::StatusReply status;
  if (!cli.Call(&v1::Admin::Stub::GetStatus, v1::StatusRequest(), &status)) return;
  const absl::Time start = absl::Now();
  Progress progress(cli, recording->requests.size());
  const std::unique_ptr<v1::Compiler::Stub> stub = v1::Compiler::NewStub(cli.Connect());
  PutCallSpecs(*stub, *recording, SendAll(*stub, *recording, parallel, progress), progress);
  Report(cli, *recording, progress, absl::ToDoubleSeconds(absl::Now() - start));
  if (progress.Count("failed") > 0) cli.status = kFailed;
}

}  // namespace

void AddPrewarm(CLI::App& app, Cli& cli) {
  auto file = std::make_shared<std::string>();
  auto parallel = std::make_shared<uint32_t>(4);
  CLI::App* verb =
      app.add_subcommand("prewarm", "compile ahead what a job recorded (KILN_RECORD, options={\"record\": …})");
  verb->add_option("FILE", *file, "the recording")->required();
  verb->add_option("--parallel", *parallel, "graphs at a time")->check(CLI::Range(1, 64))->capture_default_str();
  verb->callback([&cli, file, parallel] { Run(cli, *file, *parallel); });
}

}  // namespace kiln
