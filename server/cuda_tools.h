// Where NVIDIA's tools for code that runs on GPUs are; proto/config.proto's message Cuda is the manual.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/config.pb.h"

namespace kiln {

// What the search depends on; empty strings for what is not set.
struct CudaEnv {
  std::string cuda_home;   // $CUDA_HOME
  std::string path;        // $PATH
  std::string program;     // kilnd's own, an absolute path
  std::string usual_home;  // where CUDA is installed by default

  static CudaEnv FromProcess();
};

struct CudaTools {
  std::string ptxas;           // path; "": none
  std::string ptxas_version;   // what it says of itself
  std::string libdevice_path;  // "": none
  std::string libdevice;       // the file's contents

  // The compiler's build, with whatever tools take part in it: part of keys. `build` itself where there are none.
  std::string BuildWith(const std::string& build) const;
  // For the log: what is there, and what the lack of the rest costs.
  std::string Describe() const;
};

// InvalidArgument names a configured path that is not there, or a configured ptxas that does not run. Runs ptxas.
absl::StatusOr<CudaTools> FindCudaTools(const v1::Config::Cuda& config, const CudaEnv& env);

}  // namespace kiln
