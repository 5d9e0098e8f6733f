#include "server/generalizations.h"

#include <algorithm>
#include <utility>

#include "server/generalize.h"

namespace kiln {
namespace {

constexpr size_t kMaxMembers = kMaxInstances + kMaxGeneralizations;

size_t CountGeneralizations(const std::vector<v1::SkeletonMember>& members) {
  return static_cast<size_t>(std::count_if(members.begin(), members.end(),
                                           [](const v1::SkeletonMember& m) { return m.has_generalization(); }));
}

v1::SkeletonMember MemberOf(const Skeleton& skeleton) {
  v1::SkeletonMember member;
  member.mutable_values()->Assign(skeleton.values.begin(), skeleton.values.end());
  return member;
}

}  // namespace

void Generalizations::Remember(const RequestContext& ctx, const v1::CompileRequest& request) {
  const std::optional<Skeleton> skeleton = SkeletonOf(request, build_);
  if (!skeleton) return;
  MutexLock lock(&adding_);
  const std::vector<v1::SkeletonMember> members = cache_->SkeletonMembers(ctx, skeleton->key, kMaxMembers);
  if (members.size() - CountGeneralizations(members) >= kMaxInstances) return;
  cache_->PublishSkeletonMember(ctx, skeleton->key, MemberOf(*skeleton));
}

std::optional<v1::Generalization> Generalizations::Find(const RequestContext& ctx, const v1::CompileRequest& request) {
  const std::optional<Skeleton> skeleton = SkeletonOf(request, build_);
  if (!skeleton) return std::nullopt;
  const auto members = [&] { return cache_->SkeletonMembers(ctx, skeleton->key, kMaxMembers); };
  if (std::optional<v1::Generalization> stored = Stored(ctx, *skeleton, members())) return stored;
  MutexLock lock(&adding_);
  const std::vector<v1::SkeletonMember> present = members();
  // Another call may have just stored it.
  if (std::optional<v1::Generalization> stored = Stored(ctx, *skeleton, present)) return stored;
  if (CountGeneralizations(present) >= kMaxGeneralizations) return std::nullopt;
  std::vector<std::vector<int64_t>> instances;
  for (const v1::SkeletonMember& member : present) {
    if (!member.has_generalization()) instances.emplace_back(member.values().begin(), member.values().end());
  }
  std::optional<v1::Generalization> made = Generalize(*skeleton, instances);
  if (!made) return std::nullopt;
  v1::SkeletonMember member = MemberOf(*skeleton);
  *member.mutable_generalization() = *made;
  for (const v1::Generalization::Place& place : made->places()) {
    member.set_values(static_cast<int>(place.value()), 0);  // whichever request it was
  }
  cache_->PublishSkeletonMember(ctx, skeleton->key, member);
  return made;
}

std::optional<v1::Generalization> Generalizations::Stored(const RequestContext& ctx, const Skeleton& skeleton,
                                                          const std::vector<v1::SkeletonMember>& members) {
  const v1::SkeletonMember* best = nullptr;
  for (const v1::SkeletonMember& member : members) {
    if (!member.has_generalization() || !IsInstance(member, skeleton.values)) continue;
    const auto symbols = [](const v1::SkeletonMember& m) { return m.generalization().syms().symbols_size(); };
    if (best == nullptr || symbols(member) < symbols(*best)) best = &member;
  }
  if (best == nullptr) return std::nullopt;
  cache_->UseSkeletonMember(ctx, skeleton.key, *best);
  return best->generalization();
}

}  // namespace kiln
