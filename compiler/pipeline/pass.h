// The pass runner: one wrapper handles cancelling, skipping, timing, checking and dumping for every pass of every IR.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/debug/debug.h"
#include "compiler/debug/times.h"
#include "compiler/options/options.h"

namespace kiln {

// One step of a pipeline over programs of type T. `run` is a pure function of its arguments.
template <typename T>
struct Pass {
  std::string_view name;
  absl::StatusOr<T> (*run)(T program, const Options& options);
  // Null: always.
  bool (*condition)(const Options& options) = nullptr;
};

// What the wrapper has to know of an IR. Stateless.
template <typename T>
class Ir {
 public:
  virtual ~Ir() = default;
  virtual std::string_view extension() const = 0;  // of dumped files: "kir"
  virtual std::string Print(const T& program) const = 0;
  // Internal if the program is not well formed.
  virtual absl::Status Verify(const T& program) const = 0;
  // Internal unless `text`, which Print gave, reads back as the same program.
  virtual absl::Status ReadBack(const T& program, const std::string& text) const = 0;
  // Internal if the two are known to compute different things.
  virtual absl::Status Compare(const T&, const T&) const { return absl::OkStatus(); }
  // Cheap: whether a pass changed nothing, so that nothing need be checked.
  virtual bool Same(const T&, const T&) const { return false; }
};

struct PassContext {
  std::string subject;  // what is being compiled, for KILN_DUMP: "forward", "kernel_3"
  Options options;
  DebugOptions debug;
  std::function<bool()> cancelled = nullptr;  // asked before each pass: a deadline, a client that has gone
  StageTimes* times = nullptr;
};

// The part of the wrapper that does not depend on the IR.
class PassRun {
 public:
  explicit PassRun(const PassContext& context) : context_(context) {}
  // Cancelled, naming the pass.
  absl::Status Begin(std::string_view pass);
  void End(std::string_view pass);
  bool ShouldDump(std::string_view pass) const { return context_.debug.ShouldDump(pass, context_.subject); }
  void Dump(std::string_view pass, std::string_view extension, const std::string& text);
  // The same code, the message led by the pass's name.
  static absl::Status Named(std::string_view pass, const absl::Status& status);

 private:
  const PassContext& context_;
  int number_ = 0;
  int64_t begin_nanos_ = 0;
};

// Runs the passes whose condition holds, in order. Test: pass_test.cc.
template <typename T>
absl::StatusOr<T> RunPasses(T program, std::span<const Pass<T>> passes, const Ir<T>& ir, const PassContext& context) {
  PassRun run(context);
  for (const Pass<T>& pass : passes) {
    if (pass.condition && !pass.condition(context.options)) continue;
    if (absl::Status status = run.Begin(pass.name); !status.ok()) return status;
    // Programs that can't be copied are checked, but not compared with what they were.
    [[maybe_unused]] std::conditional_t<std::copyable<T>, T, std::monostate> before;
    if constexpr (std::copyable<T>) before = program;
    absl::StatusOr<T> after = pass.run(std::move(program), context.options);
    if (!after.ok()) return run.Named(pass.name, after.status());
    program = *std::move(after);
    run.End(pass.name);
    if (run.ShouldDump(pass.name)) run.Dump(pass.name, ir.extension(), ir.Print(program));
    if (!context.debug.verify) continue;
    absl::Status status;
    if constexpr (std::copyable<T>) {
      if (ir.Same(before, program)) continue;
      status = ir.Verify(program);
      if (status.ok()) status = ir.ReadBack(program, ir.Print(program));
      if (status.ok()) status = ir.Compare(before, program);
    } else {
      status = ir.Verify(program);
      if (status.ok()) status = ir.ReadBack(program, ir.Print(program));
    }
    if (!status.ok()) return run.Named(pass.name, status);
  }
  return program;
}

}  // namespace kiln
