#include "server/compile_flow.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/digest.h"
#include "compiler/artifact/abi.h"
#include "server/parallel.h"
#include "server/request_key.h"
#include "server/status.h"
#include "server/wire.h"

namespace kiln {
namespace {

std::atomic<uint64_t> last_number = 0;

const char* OutcomeName(const JobResult& job) {
  if (job.status.ok()) return "ok";
  if (IsCrashed(job.status)) return "crashed";
  return absl::IsCancelled(job.status) ? "cancelled" : "error";
}

}  // namespace

CompileFlow::CompileFlow(const CompileServices& services, const CompileTask& task, SingleFlight::Lead& lead)
    : services_(services), task_(task), lead_(lead), number_(++last_number), started_(services.clock->Now()) {}

absl::StatusOr<v1::Done> CompileFlow::Run() {
  if (absl::Status s = Plan(); !s.ok()) return s;
  if (absl::Status s = Codegen(); !s.ok()) return s;
  if (absl::Status s = Link(); !s.ok()) return s;
  return Publish();
}

absl::Status CompileFlow::Plan() {
  v1::CompileEvent queued;
  queued.mutable_queued()->set_position(static_cast<uint32_t>(services_.pool->queued()));
  if (absl::Status s = Emit(queued); !s.ok()) return s;

  v1::Job job;
  *job.mutable_plan()->mutable_request() = task_.request;
  job.mutable_plan()->set_build(services_.build);
  JobResult result = RunJob(*services_.pool, std::move(job), Priority::kNormal, lead_.stop(), nullptr, [this] {
    v1::CompileEvent planning;
    planning.mutable_planning();
    Emit(planning).IgnoreError();  // a lost flight shows at the next
  });
  Account(result, "plan", &planning_);
  if (!result.status.ok()) return result.status;
  plan_ = std::move(*result.reply.mutable_plan());
  if (plan_.kernels_size() != plan_.artifact().kernels_size()) {
    return absl::InternalError(
        absl::StrCat("the plan names ", plan_.artifact().kernels_size(), " kernels and brings ", plan_.kernels_size()));
  }
  AddTimes("plan", plan_.times(), result.busy);
  v1::CompileEvent partitioned;
  *partitioned.mutable_partitioned()->mutable_signature() = plan_.artifact().signature();
  return Emit(partitioned);
}

absl::Status CompileFlow::Codegen() {
  const size_t n = static_cast<size_t>(plan_.kernels_size());
  counters_.set_kernels(n);
  objects_.resize(n, Object{absl::CancelledError("not begun"), false, {}, {}});
  // Twice as many as workers: publishing one kernel overlaps with compiling the next.
  ParallelFor(n, 2 * services_.pool->count(), [this, n](size_t i) {
    {
      MutexLock lock(&mu_);
      if (kernel_failed_) return;
    }
    objects_[i] = ObjectOf(plan_.kernels(static_cast<int>(i)));
    v1::CompileEvent event;
    event.mutable_kernels()->set_total(static_cast<uint32_t>(n));
    MutexLock lock(&mu_);
    kernel_failed_ |= !objects_[i].bytes.ok();
    event.mutable_kernels()->set_done(++kernels_done_);
    lead_.Emit(event.SerializeAsString()).IgnoreError();
  });
  absl::Status failure;
  for (const Object& object : objects_) {
    if (object.cached) counters_.set_kernel_hits(counters_.kernel_hits() + 1);
    Account(object.job, "codegen", &generating_);
    Account(object.assembly, "assemble", &generating_);
    AddTimes("kernels", object.job.reply.codegen().times(), object.job.busy);
    if (object.assembly.attempts != 0 && !times_.stages().empty())
      times_.Add("kernels: ptxas", absl::ToDoubleSeconds(object.assembly.busy));
    // The first in the kernels' order that says why, so that the answer does not depend on the race.
    if (failure.ok() || absl::IsCancelled(failure)) failure = object.bytes.ok() ? failure : object.bytes.status();
  }
  return failure;
}

CompileFlow::Object CompileFlow::ObjectOf(const v1::KernelSource& kernel) {
  const std::string& target = task_.request.target().name();
  const absl::StatusOr<Key> key = KernelObjectKey(kernel, target, services_.build);
  if (!key.ok()) return {key.status(), false, {}, {}};
  RequestContext ctx = task_.ctx;
  ctx.deadline = task_.deadline;
  ctx.stop = lead_.stop();
  if (std::optional<std::string> cached = services_.cache->LookupKernel(ctx, *key))
    return {*std::move(cached), true, {}, {}};

  Object object{absl::UnknownError(""), true, {}, {}};
  const SingleFlight::Work work = [&](SingleFlight::Lead& lead) -> absl::StatusOr<std::string> {
    if (std::optional<std::string> cached = services_.cache->LookupKernel(ctx, *key)) return *std::move(cached);
    object.cached = false;
    absl::StatusOr<std::string> made = MakeObject(kernel, lead, object);
    if (made.ok()) services_.cache->PublishKernel(ctx, *key, *made);
    return made;
  };
  SingleFlight::Outcome outcome = services_.kernels->Run(ctx, *key, work);
  // Another compile that led may have run out of its own time; this one has some left.
  while (outcome.joined && absl::IsDeadlineExceeded(outcome.value.status()) && !IsCrashed(outcome.value.status()) &&
         services_.clock->Now() < task_.deadline) {
    outcome = services_.kernels->Run(ctx, *key, work);
  }
  object.bytes = std::move(outcome.value);
  return object;
}

absl::StatusOr<std::string> CompileFlow::MakeObject(const v1::KernelSource& kernel, SingleFlight::Lead& lead,
                                                    Object& made) {
  const std::string& target = task_.request.target().name();
  std::vector<std::string> archs;
  if (services_.assemble_for) archs = services_.assemble_for(target);
  v1::Job job;
  *job.mutable_codegen()->mutable_kernel() = kernel;
  job.mutable_codegen()->set_target(target);
  if (!archs.empty()) job.mutable_codegen()->set_libdevice(services_.cuda->libdevice);
  made.job =
      RunJob(*services_.pool, std::move(job), Priority::kNormal, lead.stop(), [&] { lead.Heartbeat().IgnoreError(); });
  if (!made.job.status.ok()) return made.job.status;
  std::string object = std::move(*made.job.reply.mutable_codegen()->mutable_object());
  if (archs.empty() || services_.cuda->ptxas.empty()) return object;
  return Assembled(std::move(object), std::move(archs), lead, made);
}

// The cubin; the PTX itself where ptxas knows none of the archs.
absl::StatusOr<std::string> CompileFlow::Assembled(std::string ptx, std::vector<std::string> archs,
                                                   SingleFlight::Lead& lead, Object& made) {
  const absl::StatusOr<WorkerPool*> pool = services_.assemblers->Get();
  if (!pool.ok()) return pool.status();
  v1::Job job;
  job.mutable_assemble()->set_ptx(ptx);
  *job.mutable_assemble()->mutable_archs() = {archs.begin(), archs.end()};
  job.mutable_assemble()->set_ptxas(services_.cuda->ptxas);
  made.assembly =
      RunJob(**pool, std::move(job), Priority::kNormal, lead.stop(), [&] { lead.Heartbeat().IgnoreError(); });
  if (!made.assembly.status.ok()) return made.assembly.status;
  std::string cubin = std::move(*made.assembly.reply.mutable_assemble()->mutable_cubin());
  return cubin.empty() ? std::move(ptx) : std::move(cubin);
}

absl::Status CompileFlow::Link() {
  if (objects_.empty()) return absl::OkStatus();
  v1::CompileEvent linking;
  linking.mutable_linking();
  if (absl::Status s = Emit(linking); !s.ok()) return s;
  v1::Job job;
  for (size_t i = 0; i < objects_.size(); ++i) {
    job.mutable_link()->add_objects(*std::move(objects_[i].bytes));
    job.mutable_link()->add_symbols(plan_.kernels(static_cast<int>(i)).symbol());
  }
  job.mutable_link()->set_target(task_.request.target().name());
  JobResult result = RunJob(*services_.pool, std::move(job), Priority::kHigh, lead_.stop(), nullptr);
  Account(result, "link", &linking_);
  if (!result.status.ok()) return result.status;
  if (!times_.stages().empty()) times_.Add("link", absl::ToDoubleSeconds(result.busy));
  shared_object_ = std::move(*result.reply.mutable_link()->mutable_shared_object());
  if (shared_object_.empty()) return absl::InternalError("the linker made an empty shared object");
  return absl::OkStatus();
}

void CompileFlow::FinishArtifact() {
  v1::Artifact* artifact = plan_.mutable_artifact();
  if (!shared_object_.empty()) *artifact->mutable_shared_object() = ToProto(Digest::Of(shared_object_));
  for (const KeyPart& part : task_.parts.parts) *artifact->add_key_parts() = ToProto(part);
}

// What a worker has measured (with KILN_TIME), and what of its time that leaves.
void CompileFlow::AddTimes(const std::string& job, const google::protobuf::RepeatedPtrField<v1::StageTime>& times,
                           absl::Duration busy) {
  if (times.empty()) return;
  double rest = absl::ToDoubleSeconds(busy);
  for (const v1::StageTime& time : times) {
    times_.Add(absl::StrCat(job, ": ", time.stage()), time.seconds());
    rest -= time.seconds();
  }
  times_.Add(absl::StrCat(job, ": the rest"), std::max(rest, 0.0));
}

v1::Done CompileFlow::Publish() {
  if (!times_.stages().empty()) task_.log->info("workers' time:\n{}", times_.Report());
  FinishArtifact();
  v1::ActionRecord record;
  record.set_version(kArtifactVersion);
  *record.mutable_key_parts() = plan_.artifact().key_parts();
  record.set_num_kernels(static_cast<uint32_t>(plan_.kernels_size()));
  record.set_compile_seconds(counters_.seconds_spent());
  ActionBlobs blobs{SerializeDeterministic(plan_.artifact()), shared_object_, SerializeDeterministic(MakeProvenance()),
                    SerializeDeterministic(task_.request.guards())};
  return services_.cache->PublishAction(task_.ctx, task_.key, std::move(record), std::move(blobs));
}

v1::Provenance CompileFlow::MakeProvenance() const {
  v1::Provenance p;
  p.set_created_unix_micros(absl::ToUnixMicros(services_.clock->Now()));
  p.set_principal(task_.principal);
  p.set_job(task_.job);
  p.set_build(services_.build);
  p.set_host(services_.host);
  for (const int64_t pid : workers_) p.add_worker_pids(pid);
  p.set_queue_seconds(absl::ToDoubleSeconds(waited_));
  p.set_plan_seconds(absl::ToDoubleSeconds(planning_));
  p.set_codegen_seconds(absl::ToDoubleSeconds(generating_));
  p.set_link_seconds(absl::ToDoubleSeconds(linking_));
  for (size_t i = 0; i < objects_.size(); ++i) {
    const v1::KernelSource& kernel = plan_.kernels(static_cast<int>(i));
    v1::Provenance::KernelInfo* info = p.add_kernels();
    info->set_symbol(kernel.symbol());
    info->set_key(kernel.key());
    info->set_text(kernel.text());
    info->set_cached(objects_[i].cached);
  }
  return p;
}

JobResult CompileFlow::RunJob(WorkerPool& pool, v1::Job job, Priority priority, std::stop_token stop,
                              const std::function<void()>& also, const std::function<void()>& on_start) {
  JobSpec spec;
  spec.job = std::move(job);
  spec.compile = number_;
  spec.priority = priority;
  spec.deadline = task_.deadline;
  spec.stop = std::move(stop);
  spec.on_start = on_start;
  spec.on_tick = [&] {
    lead_.Heartbeat().IgnoreError();  // a lost flight requests the stop
    if (also) also();
  };
  return pool.Run(std::move(spec));
}

absl::Status CompileFlow::Emit(const v1::CompileEvent& event) {
  MutexLock lock(&mu_);
  return lead_.Emit(event.SerializeAsString());
}

void CompileFlow::Account(const JobResult& job, const char* kind, absl::Duration* stage) {
  if (job.attempts == 0) return;
  services_.metrics->Job(kind, OutcomeName(job), job.busy);
  *stage += job.busy;
  waited_ += job.waited;
  counters_.set_seconds_spent(counters_.seconds_spent() + absl::ToDoubleSeconds(job.busy));
  if (std::find(workers_.begin(), workers_.end(), job.worker) == workers_.end()) workers_.push_back(job.worker);
}

}  // namespace kiln
