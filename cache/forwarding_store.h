// A decorator that does nothing: the base of those that do one thing.
#pragma once

#include <memory>
#include <utility>

#include "cache/store.h"

namespace kiln {

class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(std::unique_ptr<Store> inner) : inner_(std::move(inner)) {}

  absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) override {
    return inner_->GetBlob(ctx, digest);
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const RequestContext& ctx, std::span<const Digest> digests) override {
    return inner_->FindMissing(ctx, digests);
  }
  absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) override {
    return inner_->GetRecord(ctx, id);
  }
  absl::StatusOr<std::vector<ListedRecord>> List(const RequestContext& ctx, const ListRequest& request) override {
    return inner_->List(ctx, request);
  }
  absl::Status Publish(const RequestContext& ctx, const Publication& publication) override {
    return inner_->Publish(ctx, publication);
  }
  absl::Status RemoveRecord(const RequestContext& ctx, const RecordId& id) override {
    return inner_->RemoveRecord(ctx, id);
  }
  absl::Status RemoveBlob(const RequestContext& ctx, const Digest& digest) override {
    return inner_->RemoveBlob(ctx, digest);
  }
  absl::Status Lease(const RequestContext& ctx, const RecordId& id, absl::Time until) override {
    return inner_->Lease(ctx, id, until);
  }
  absl::Status ReleaseLeases(const RequestContext& ctx) override { return inner_->ReleaseLeases(ctx); }
  absl::Status Maintain(const RequestContext& ctx) override { return inner_->Maintain(ctx); }
  absl::StatusOr<StoreStats> Stats(const RequestContext& ctx) override { return inner_->Stats(ctx); }

 protected:
  Store& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Store> inner_;
};

}  // namespace kiln
