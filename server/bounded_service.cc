#include "server/bounded_service.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include <optional>
#include <string_view>

#include "server/admission.h"
#include "server/parsed_size.h"
#include "server/wire.h"

namespace kiln {
namespace {

using grpc::internal::MethodHandler;

// Below this a request is not measured: it takes a few MiB at worst.
constexpr size_t kSmallBytes = 64 << 10;

// No `bytes`: the call ended before a whole message came, which the inner handler says.
absl::StatusOr<uint64_t> Measure(grpc_byte_buffer* bytes, const google::protobuf::Descriptor& type, uint64_t bound) {
  if (bytes == nullptr || grpc_byte_buffer_length(bytes) < kSmallBytes) return 0;
  grpc_byte_buffer_reader reader;
  if (grpc_byte_buffer_reader_init(&reader, bytes) == 0) return absl::InvalidArgumentError("request: cannot be read");
  const grpc_slice whole = grpc_byte_buffer_reader_readall(&reader);
  absl::StatusOr<uint64_t> size =
      ParsedSize({reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(whole)), GRPC_SLICE_LENGTH(whole)}, type, bound);
  grpc_slice_unref(whole);
  grpc_byte_buffer_reader_destroy(&reader);
  return size;
}

class BoundedHandler final : public MethodHandler {
 public:
  BoundedHandler(const char* path, const RpcServices& services, const google::protobuf::Descriptor& request,
                 std::unique_ptr<MethodHandler> inner)
      : path_(path), services_(services), request_(request), inner_(std::move(inner)) {}

  void* Deserialize(grpc_call* call, grpc_byte_buffer* bytes, grpc::Status* status, void** data) override {
    auto held = std::make_unique<Held>();
    const absl::StatusOr<uint64_t> size = Measure(bytes, request_, services_.memory->one_request);
    held->refused = size.status();
    if (size.ok() && *size > 0) {
      absl::StatusOr<Gate::Ticket> ticket = services_.memory->gate.Enter(*size);
      held->refused = ticket.status();
      if (ticket.ok()) held->ticket.emplace(*std::move(ticket));
    }
    if (held->refused.ok()) {
      held->request = inner_->Deserialize(call, bytes, status, data);
    } else {
      grpc_byte_buffer_destroy(bytes);
      *status = {static_cast<grpc::StatusCode>(held->refused.code()), std::string(held->refused.message())};
      services_.log->warn("{}: refused: {}", path_, OneLine(std::string(held->refused.message())));
    }
    return held.release();
  }

  void RunHandler(const HandlerParameter& param) override {
    const std::unique_ptr<Held> held(static_cast<Held*>(param.request));
    if (!held->refused.ok()) {
      ToGrpc(held->refused, static_cast<grpc::ServerContext*>(param.server_context));  // when to come again
    }
    inner_->RunHandler({param.call, param.server_context, held->request, param.status, param.internal_data, {}});
  }

 private:
  // What Deserialize hands to RunHandler, which gRPC always calls after it.
  struct Held {
    absl::Status refused;
    std::optional<Gate::Ticket> ticket;
    void* request = nullptr;  // `inner_`'s
  };

  const char* const path_;
  const RpcServices& services_;
  const google::protobuf::Descriptor& request_;
  const std::unique_ptr<MethodHandler> inner_;
};

}  // namespace

void BoundedService::Add(const char* path, grpc::internal::RpcMethod::RpcType type,
                         const google::protobuf::Descriptor& request, std::unique_ptr<MethodHandler> handler) {
  AddMethod(new grpc::internal::RpcServiceMethod(path, type,
                                                 new BoundedHandler(path, services_, request, std::move(handler))));
}

}  // namespace kiln
