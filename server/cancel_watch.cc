#include "server/cancel_watch.h"

#include <vector>

#include "absl/time/time.h"

namespace kiln {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(50);
constexpr absl::Duration kLongWait = absl::Hours(1);

}  // namespace

CancelWatch::CancelWatch() : thread_([this] { Loop(); }) {}

CancelWatch::~CancelWatch() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

CancelWatch::Watched::Watched(CancelWatch* owner, const grpc::ServerContext* context)
    : owner_(owner), context_(context) {
  MutexLock lock(&owner_->mu_);
  place_ = owner_->watched_.insert(owner_->watched_.end(), this);
  owner_->changed_.NotifyAll();
}

CancelWatch::Watched::~Watched() {
  MutexLock lock(&owner_->mu_);
  while (busy_) owner_->changed_.WaitFor(&owner_->mu_, kPeriod);
  owner_->watched_.erase(place_);
}

void CancelWatch::Loop() {
  while (true) {
    std::vector<Watched*> all;
    {
      MutexLock lock(&mu_);
      if (stopping_) return;
      changed_.WaitFor(&mu_, watched_.empty() ? kLongWait : kPeriod);
      if (stopping_) return;
      for (Watched* w : watched_) {
        w->busy_ = true;
        all.push_back(w);
      }
    }
    // Outside the lock: what a stop request calls is not this class's to know.
    for (Watched* w : all) {
      if (w->context_->IsCancelled()) w->stop_.request_stop();
    }
    MutexLock lock(&mu_);
    for (Watched* w : all) w->busy_ = false;
    changed_.NotifyAll();
  }
}

}  // namespace kiln
