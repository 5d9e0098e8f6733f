#include "cache/context.h"

#include "absl/strings/str_cat.h"

namespace kiln {

absl::Status ContextStatus(const RequestContext& ctx, absl::Time now) {
  if (ctx.stop.stop_requested())
    return absl::CancelledError(absl::StrCat("request ", ctx.request_id, " was cancelled"));
  if (now < ctx.deadline) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("request ", ctx.request_id, " is out of time"));
}

}  // namespace kiln
