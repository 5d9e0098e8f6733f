#include "server/rpc_call.h"

#include "absl/strings/str_cat.h"
#include "server/status.h"
#include "server/wire.h"

namespace kiln {
namespace {

// gRPC's own name for "not before so many milliseconds".
constexpr char kPushback[] = "grpc-retry-pushback-ms";

bool MayBeOurFault(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status, grpc::ServerContext* context) {
  if (const std::optional<absl::Duration> wait = RetryAfter(status)) {
    context->AddTrailingMetadata(kPushback, absl::StrCat(absl::ToInt64Milliseconds(*wait)));
  }
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

RpcCall::RpcCall(const RpcServices& services, grpc::ServerContext* context, const char* method, const v1::JobInfo& job)
    : services_(services),
      context_(context),
      method_(method),
      started_(services.clock->Now()),
      scope_(services.life->EnterCall()),
      principal_(services.auth->Resolve(context->peer())),
      job_(job.job()),
      request_id_(RequestId(job.request_id())),
      log_(ForRequest(services.log, request_id_)) {}

grpc::Status RpcCall::Finish(const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  services_.metrics->Request(method_, code, elapsed());
  const auto level = MayBeOurFault(status.code()) ? spdlog::level::warn : spdlog::level::info;
  log_->log(level, "{} {} {:.1f} ms {}{}{}", method_, code, absl::ToDoubleMilliseconds(elapsed()), principal_.name,
            note_.empty() ? "" : " " + note_, status.ok() ? "" : ": " + OneLine(std::string(status.message())));
  return ToGrpc(status, context_);
}

RequestContext RpcCall::MakeContext() const {
  RequestContext ctx;
  ctx.ns = principal_.name;
  ctx.admin = principal_.roles.contains(Role::kAdmin);
  ctx.request_id = request_id_;
  ctx.job_id = job_;
  ctx.deadline = absl::FromChrono(context_->deadline());
  return ctx;
}

}  // namespace kiln
