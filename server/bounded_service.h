// A gRPC service whose requests are measured before they are parsed.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/method_handler.h>

#include <memory>

#include "server/rpc_call.h"

namespace kiln {

// Takes the place of the generated Service class, which has no say in how its requests are parsed: the derived class
// adds its methods. A request over its bounds never reaches its method; the client gets the status of ParsedSize or
// Gate.
class BoundedService : public grpc::Service {
 protected:
  // What `services` points to outlives the service.
  explicit BoundedService(const RpcServices& services) : services_(services) {}

  // `path` is "/package.Service/Method", and outlives the service too.
  template <typename Self, typename Request, typename Reply>
  void AddUnary(const char* path, grpc::Status (Self::*method)(grpc::ServerContext*, const Request*, Reply*)) {
    using Handler = grpc::internal::RpcMethodHandler<Self, Request, Reply>;
    Add(path, grpc::internal::RpcMethod::NORMAL_RPC, *Request::descriptor(),
        std::make_unique<Handler>(method, static_cast<Self*>(this)));
  }
  template <typename Self, typename Request, typename Event>
  void AddStreaming(const char* path,
                    grpc::Status (Self::*method)(grpc::ServerContext*, const Request*, grpc::ServerWriter<Event>*)) {
    using Handler = grpc::internal::ServerStreamingHandler<Self, Request, Event>;
    Add(path, grpc::internal::RpcMethod::SERVER_STREAMING, *Request::descriptor(),
        std::make_unique<Handler>(method, static_cast<Self*>(this)));
  }

 private:
  void Add(const char* path, grpc::internal::RpcMethod::RpcType type, const google::protobuf::Descriptor& request,
           std::unique_ptr<grpc::internal::MethodHandler> handler);

  const RpcServices services_;
};

}  // namespace kiln
