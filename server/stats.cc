#include "server/stats.h"

#include "server/wire.h"

namespace kiln {
namespace {

constexpr size_t kMaxJobName = 200;

}  // namespace

void AddTo(v1::Counters* sum, const v1::Counters& d) {
  sum->set_lookups(sum->lookups() + d.lookups());
  sum->set_hits(sum->hits() + d.hits());
  sum->set_misses(sum->misses() + d.misses());
  sum->set_compiles(sum->compiles() + d.compiles());
  sum->set_joined(sum->joined() + d.joined());
  sum->set_failures(sum->failures() + d.failures());
  sum->set_kernels(sum->kernels() + d.kernels());
  sum->set_kernel_hits(sum->kernel_hits() + d.kernel_hits());
  sum->set_seconds_spent(sum->seconds_spent() + d.seconds_spent());
  sum->set_seconds_saved(sum->seconds_saved() + d.seconds_saved());
  sum->set_bytes_sent(sum->bytes_sent() + d.bytes_sent());
}

void Stats::Add(const std::string& job, const v1::Counters& delta) {
  const std::string name = job.empty() ? kUnnamed : OneLine(job, kMaxJobName);
  MutexLock lock(&mu_);
  AddTo(&totals_, delta);
  auto it = jobs_.find(name);
  if (it == jobs_.end() && jobs_.size() >= kMaxJobs) it = jobs_.try_emplace(kOthers).first;
  if (it == jobs_.end()) it = jobs_.try_emplace(name).first;
  AddTo(&it->second, delta);
}

void Stats::AddUnattributed(const v1::Counters& delta) {
  MutexLock lock(&mu_);
  AddTo(&totals_, delta);
}

void Stats::Fill(v1::StatsReply* reply) const {
  MutexLock lock(&mu_);
  *reply->mutable_totals() = totals_;
  for (const auto& [name, counters] : jobs_) {
    v1::StatsReply::Job* job = reply->add_jobs();
    job->set_job(name);
    *job->mutable_counters() = counters;
  }
}

}  // namespace kiln
