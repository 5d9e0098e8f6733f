// For end-to-end tests: requests for FakeJobs, and calls that collect what a daemon answers. Every call has a deadline.
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/admin.grpc.pb.h"
#include "proto/service.grpc.pb.h"

namespace kiln {

inline constexpr absl::Duration kTestPatience = absl::Seconds(60);

// A well-formed request whose graph has these ops (fake_jobs.h).
v1::CompileRequest TestRequest(const std::vector<std::string>& ops, const std::string& job = "test");

// Makes it one of level TORCH with one input, a vector of `size`. It has no inputs before.
void AddVectorInput(int64_t size, v1::CompileRequest* request);

struct CompileAnswer {
  grpc::Status status;
  std::vector<v1::CompileEvent> events;
  std::string pushback_ms;  // the server's retry hint; empty: none

  // The last event, if it is of that kind; else an empty message.
  v1::Done done() const;
  v1::Failure failure() const;
  // The kinds of the events, in order: "queued planning partitioned kernels kernels linking done".
  std::string Kinds() const;
};

class TestClient {
 public:
  explicit TestClient(const std::string& address);  // "unix:/path" or "host:port"

  CompileAnswer Compile(const v1::CompileRequest& request, absl::Duration limit = kTestPatience);
  // The blob from `offset`; the chunks' sizes go to `chunks` if that is not null.
  grpc::Status Fetch(const v1::Digest& digest, uint64_t offset, std::string* blob,
                     std::vector<size_t>* chunks = nullptr);
  v1::LookupReply Lookup(const v1::CompileRequest& request, grpc::Status* status = nullptr);
  v1::StatusReply Status();
  std::vector<pid_t> IdleWorkers();
  v1::StatsReply Stats();
  // Sends raw bytes as the message of a method; the status that comes back, and the messages, one after the other.
  grpc::Status CallRaw(const std::string& method, const std::string& bytes, std::string* replies = nullptr);
  // Ends the call without having sent a message.
  grpc::Status CallEmpty(const std::string& method);

  v1::Compiler::Stub& compiler() { return *compiler_; }
  v1::Admin::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  static void SetDeadline(grpc::ClientContext* context, absl::Duration limit = kTestPatience);

 private:
  grpc::Status Call(const std::string& method, const grpc::ByteBuffer* request, std::string* replies);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Compiler::Stub> compiler_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
};

// Waits until `condition`, at most for kTestPatience.
bool Eventually(const std::function<bool()>& condition);

// A folder under /tmp (socket paths must be short), removed with all that is in it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A program of this package's runfiles.
std::string TestProgram(const std::string& name);

size_t FileSize(const std::string& path);  // 0: there is none
void Touch(const std::string& path);

}  // namespace kiln
