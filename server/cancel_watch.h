// Turns the end of an RPC's client into a stop request: gRPC's synchronous API only answers when asked.
#pragma once

#include <grpcpp/server_context.h>

#include <list>
#include <stop_token>
#include <thread>

#include "cache/mutex.h"

namespace kiln {

// Thread-safe. One thread asks for all calls; it sleeps while there are none.
class CancelWatch {
 public:
  CancelWatch();
  ~CancelWatch();  // nothing may be watched any more

  // `stop` is requested within about 50 ms of the client's cancelling, vanishing or running out of its deadline.
  // `context` must outlive the object.
  class Watched {
   public:
    Watched(CancelWatch* owner, const grpc::ServerContext* context);
    ~Watched();
    Watched(const Watched&) = delete;
    std::stop_token stop() const { return stop_.get_token(); }

   private:
    friend class CancelWatch;
    CancelWatch* const owner_;
    const grpc::ServerContext* const context_;
    std::stop_source stop_;
    bool busy_ = false;  // being looked at; guarded by the owner's mutex
    std::list<Watched*>::iterator place_;
  };

 private:
  void Loop();

  Mutex mu_;
  CondVar changed_;
  std::list<Watched*> watched_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kiln
