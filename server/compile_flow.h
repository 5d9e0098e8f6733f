// One compile, from an admitted request to a published action: a Plan job, a Codegen job (and for a GPU an Assemble
// job) for each distinct kernel that the cache lacks, a Link job, one publication.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/clock.h"
#include "cache/context.h"
#include "cache/key.h"
#include "cache/mutex.h"
#include "cache/singleflight.h"
#include "compiler/debug/times.h"
#include "proto/admin.pb.h"
#include "proto/compile.pb.h"
#include "server/action_cache.h"
#include "server/cuda_tools.h"
#include "server/lazy_worker_pool.h"
#include "server/logging.h"
#include "server/metrics.h"
#include "server/worker_pool.h"

namespace kiln {

// What all compiles of a daemon share; all outlive them.
struct CompileServices {
  ActionCache* cache = nullptr;
  WorkerPool* pool = nullptr;
  LazyWorkerPool* assemblers = nullptr;
  // AssembleJob.archs for a target; none where its objects are not assembled.
  std::function<std::vector<std::string>(const std::string& target)> assemble_for;
  const CudaTools* cuda = nullptr;
  SingleFlight* kernels = nullptr;  // one kernel, one Codegen job at a time
  Metrics* metrics = nullptr;
  Clock* clock = nullptr;
  std::string build;
  std::string host;  // for provenance
};

struct CompileTask {
  v1::CompileRequest request;  // canonical (request_key.h)
  KeyParts parts;
  Key key;
  std::string principal;
  std::string job;
  RequestContext ctx;  // of the leader; its deadline and stop are not the compile's
  absl::Time deadline = absl::InfiniteFuture();
  Logger log;
};

// Used once, by the leader of the key's flight.
class CompileFlow {
 public:
  // All outlive it.
  CompileFlow(const CompileServices& services, const CompileTask& task, SingleFlight::Lead& lead);

  // Emits events as it goes. Errors keep the node and say whether workers died of it (status.h).
  absl::StatusOr<v1::Done> Run();

  // What was done, also by a Run that failed: kernels, kernel_hits, seconds_spent.
  const v1::Counters& counters() const { return counters_; }

 private:
  struct Object {
    absl::StatusOr<std::string> bytes;
    bool cached = false;
    JobResult job;       // where it was not
    JobResult assembly;  // likewise; not run where the object is not assembled
  };

  absl::Status Plan();
  void AddTimes(const std::string& job, const google::protobuf::RepeatedPtrField<v1::StageTime>& times,
                absl::Duration busy);
  absl::Status Codegen();
  absl::Status Link();
  v1::Done Publish();

  Object ObjectOf(const v1::KernelSource& kernel);
  absl::StatusOr<std::string> MakeObject(const v1::KernelSource& kernel, SingleFlight::Lead& lead, Object& made);
  absl::StatusOr<std::string> Assembled(std::string ptx, std::vector<std::string> archs, SingleFlight::Lead& lead,
                                        Object& made);
  void FinishArtifact();
  v1::Provenance MakeProvenance() const;

  // Runs a job of this compile; `also` is told each second too.
  JobResult RunJob(WorkerPool& pool, v1::Job job, Priority priority, std::stop_token stop,
                   const std::function<void()>& also, const std::function<void()>& on_start = nullptr);
  // Events of one compile come from one thread at a time.
  absl::Status Emit(const v1::CompileEvent& event);
  void Account(const JobResult& job, const char* kind, absl::Duration* stage);

  const CompileServices& services_;
  const CompileTask& task_;
  SingleFlight::Lead& lead_;
  const uint64_t number_;  // of this compile, for the pool's fairness
  const absl::Time started_;

  v1::PlanResult plan_;
  std::vector<Object> objects_;  // one a kernel of plan_
  std::string shared_object_;

  Mutex mu_;  // emitting; and what the kernels' threads share
  uint32_t kernels_done_ ABSL_GUARDED_BY(mu_) = 0;
  bool kernel_failed_ ABSL_GUARDED_BY(mu_) = false;

  v1::Counters counters_;
  std::vector<int64_t> workers_;
  StageTimes times_;                                         // with KILN_TIME in the workers' environment
  absl::Duration waited_, planning_, generating_, linking_;  // worker time, but for the first
};

}  // namespace kiln
