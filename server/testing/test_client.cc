#include "server/testing/test_client.h"

#include <grpcpp/generic/generic_stub.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compiler/artifact/abi.h"

namespace kiln {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own, as another process has
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

const char* KindOf(const v1::CompileEvent& event) {
  switch (event.kind_case()) {
    case v1::CompileEvent::kQueued:
      return "queued";
    case v1::CompileEvent::kPlanning:
      return "planning";
    case v1::CompileEvent::kPartitioned:
      return "partitioned";
    case v1::CompileEvent::kKernels:
      return "kernels";
    case v1::CompileEvent::kLinking:
      return "linking";
    case v1::CompileEvent::kDone:
      return "done";
    case v1::CompileEvent::kFailed:
      return "failed";
    case v1::CompileEvent::KIND_NOT_SET:
      break;
  }
  return "none";
}

}  // namespace

v1::CompileRequest TestRequest(const std::vector<std::string>& ops, const std::string& job) {
  v1::CompileRequest r;
  r.set_protocol_version(kProtocolVersion);
  r.mutable_graph()->set_level(v1::Graph::INFERENCE);
  for (const std::string& op : ops) r.mutable_graph()->add_ops()->set_name(op);
  r.mutable_target()->set_name("x86-64-v3");
  r.mutable_target()->mutable_host()->set_torch_version("2.13.0");
  r.mutable_target()->mutable_host()->set_kiln_abi(kKilnAbi);
  r.mutable_guards()->add_globals()->set_name("grad_mode");
  r.mutable_job()->set_job(job);
  return r;
}

void AddVectorInput(int64_t size, v1::CompileRequest* request) {
  request->mutable_graph()->set_level(v1::Graph::TORCH);
  v1::GuardSpec* guards = request->mutable_guards();
  for (const int64_t value : {int64_t{0}, int64_t{1}, size}) {
    v1::SymExpr* expr = guards->mutable_syms()->add_exprs();
    expr->set_op(v1::SymExpr::CONST);
    expr->set_value(value);
  }
  v1::TensorType* type = guards->add_types();
  type->add_sizes(2);
  type->add_strides(1);
  guards->add_inputs()->set_kind(v1::GuardSpec::InputGuard::TENSOR);
}

v1::Done CompileAnswer::done() const {
  return events.empty() || !events.back().has_done() ? v1::Done() : events.back().done();
}

v1::Failure CompileAnswer::failure() const {
  return events.empty() || !events.back().has_failed() ? v1::Failure() : events.back().failed();
}

std::string CompileAnswer::Kinds() const {
  std::string out;
  for (const v1::CompileEvent& event : events) absl::StrAppend(&out, out.empty() ? "" : " ", KindOf(event));
  return out;
}

TestClient::TestClient(const std::string& address)
    : channel_(MakeChannel(address)),
      compiler_(v1::Compiler::NewStub(channel_)),
      admin_(v1::Admin::NewStub(channel_)) {}

void TestClient::SetDeadline(grpc::ClientContext* context, absl::Duration limit) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + limit));
  context->set_wait_for_ready(true);
}

CompileAnswer TestClient::Compile(const v1::CompileRequest& request, absl::Duration limit) {
  grpc::ClientContext context;
  SetDeadline(&context, limit);
  CompileAnswer answer;
  const auto reader = compiler_->Compile(&context, request);
  for (v1::CompileEvent event; reader->Read(&event);) answer.events.push_back(event);
  answer.status = reader->Finish();
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto it = trailers.find("grpc-retry-pushback-ms"); it != trailers.end()) {
    answer.pushback_ms = std::string(it->second.data(), it->second.size());
  }
  return answer;
}

grpc::Status TestClient::Fetch(const v1::Digest& digest, uint64_t offset, std::string* blob,
                               std::vector<size_t>* chunks) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::FetchRequest request;
  *request.mutable_digest() = digest;
  request.set_offset(offset);
  const auto reader = compiler_->Fetch(&context, request);
  for (v1::Chunk chunk; reader->Read(&chunk);) {
    blob->append(chunk.data());
    if (chunks != nullptr) chunks->push_back(chunk.data().size());
  }
  return reader->Finish();
}

v1::LookupReply TestClient::Lookup(const v1::CompileRequest& request, grpc::Status* status) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::LookupRequest lookup;
  lookup.set_protocol_version(request.protocol_version());
  *lookup.mutable_request() = request;
  v1::LookupReply reply;
  const grpc::Status s = compiler_->Lookup(&context, lookup, &reply);
  if (status != nullptr) *status = s;
  return reply;
}

v1::StatusReply TestClient::Status() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StatusReply reply;
  admin_->GetStatus(&context, {}, &reply);
  return reply;
}

std::vector<pid_t> TestClient::IdleWorkers() {
  std::vector<pid_t> out;
  const v1::StatusReply status = Status();
  for (const v1::WorkerStatus& w : status.workers()) {
    if (w.state() == "idle") out.push_back(static_cast<pid_t>(w.pid()));
  }
  return out;
}

v1::StatsReply TestClient::Stats() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StatsReply reply;
  admin_->GetStats(&context, {}, &reply);
  return reply;
}

grpc::Status TestClient::CallRaw(const std::string& method, const std::string& bytes, std::string* replies) {
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  return Call(method, &request, replies);
}

grpc::Status TestClient::CallEmpty(const std::string& method) { return Call(method, nullptr, nullptr); }

grpc::Status TestClient::Call(const std::string& method, const grpc::ByteBuffer* request, std::string* replies) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context);
  grpc::CompletionQueue queue;
  // A stream of which one message is sent: fits unary and server-streaming methods alike.
  const auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto next = [&] { queue.Next(&tag, &ok); };
  call->StartCall(nullptr);
  next();
  if (request != nullptr) {
    call->WriteLast(*request, grpc::WriteOptions(), nullptr);
  } else {
    call->WritesDone(nullptr);
  }
  next();
  grpc::ByteBuffer reply;
  while (ok) {
    call->Read(&reply, nullptr);
    next();
    grpc::Slice whole;
    if (ok && replies != nullptr && reply.DumpToSingleSlice(&whole).ok()) {
      replies->append(reinterpret_cast<const char*>(whole.begin()), whole.size());
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + kTestPatience;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

TestFolder::TestFolder() {
  char name[] = "/tmp/kiln-test-XXXXXX";
  path_ = mkdtemp(name);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TestProgram(const std::string& name) {
  return (std::filesystem::current_path() / "server" / name).string();
}

size_t FileSize(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<size_t>(size);
}

void Touch(const std::string& path) { std::ofstream(path) << "x"; }

}  // namespace kiln
