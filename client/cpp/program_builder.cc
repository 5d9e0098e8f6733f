#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/external_call.h"
#include "client/cpp/program.h"

namespace kiln {
namespace {

using Kind = Program::Step::Kind;
using Storage = v1::PlanValue;

constexpr uint32_t kMaxRank = 64;       // torch's own bound
constexpr size_t kMaxSlots = 1 << 24;   // 128 MiB
constexpr uint32_t kMaxViewDepth = 64;  // views of views of …
constexpr int64_t kAnySize = std::numeric_limits<int64_t>::min();

class Builder {
 public:
  Builder(const v1::Artifact& artifact, int index)
      : artifact_(artifact), function_(artifact.functions(index)), is_first_(index == 0) {}

  absl::StatusOr<Program> Build() {
    p_.name = function_.name();
    p_.device = absl::StartsWith(artifact_.target().name(), "sm_") ? v1::CUDA : v1::CPU;
    for (absl::Status (Builder::*part)() :
         {&Builder::AddSymbols, &Builder::AddInputs, &Builder::AddValues, &Builder::AddWorkspace, &Builder::AddSteps,
          &Builder::AddOutputs, &Builder::AddViews, &Builder::AddPredicates}) {
      if (absl::Status status = (this->*part)(); !status.ok()) {
        return absl::Status(status.code(), absl::StrCat("function ", function_.name(), ": ", status.message()));
      }
    }
    return std::move(p_);
  }

 private:
  // A value's host tensor: not there yet, there, or given up.
  enum class Life : uint8_t { kUnborn, kLive, kReleased };

  template <typename... Parts>
  static absl::Status Bad(const Parts&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  }

  // --- sizes ---

  // Symbols are given by SymInt arguments, else read off the first input whose size or stride is that symbol.
  absl::Status AddSymbols() {
    absl::StatusOr<SizeTable> table = SizeTable::Create(function_.syms());
    if (!table.ok()) return table.status();
    p_.sizes = *std::move(table);
    p_.symbols.resize(p_.sizes.num_symbols());
    const auto give = [&](uint32_t expr, Program::SymbolSource source) {
      if (expr >= p_.sizes.size()) return;  // refused where it is used
      const int64_t symbol = p_.sizes.AsSymbol(expr);
      if (symbol < 0) return;
      Program::SymbolSource& known = p_.symbols[static_cast<size_t>(symbol)];
      if (known.from == Program::SymbolSource::From::kUnused) known = source;
    };
    using From = Program::SymbolSource::From;
    for (int i = 0; i < function_.inputs_size(); ++i) {
      const uint32_t input = static_cast<uint32_t>(i);
      if (function_.inputs(i).kind_case() == v1::Input::kSym)
        give(function_.inputs(i).sym(), {From::kArgument, input, 0});
    }
    for (int i = 0; i < std::min(function_.inputs_size(), function_.values_size()); ++i) {
      if (function_.inputs(i).kind_case() != v1::Input::kType) continue;
      const v1::PlanValue& value = function_.values(i);
      const uint32_t input = static_cast<uint32_t>(i);
      for (int d = 0; d < value.sizes_size(); ++d) give(value.sizes(d), {From::kSize, input, static_cast<uint32_t>(d)});
      for (int d = 0; d < value.strides_size(); ++d) {
        give(value.strides(d), {From::kStride, input, static_cast<uint32_t>(d)});
      }
    }
    MarkUnknown();
    return absl::OkStatus();
  }

  // Entries that need a symbol which no input gives may stand in the table, but not be used.
  void MarkUnknown() {
    unknown_.resize(p_.sizes.size());
    for (uint32_t e = 0; e < p_.sizes.size(); ++e) {
      const int64_t symbol = p_.sizes.AsSymbol(e);
      bool unknown =
          symbol >= 0 && p_.symbols[static_cast<size_t>(symbol)].from == Program::SymbolSource::From::kUnused;
      for (uint32_t arg : function_.syms().exprs(static_cast<int>(e)).args()) unknown |= unknown_[arg];
      unknown_[e] = unknown;
    }
  }

  absl::StatusOr<uint32_t> Slot(uint32_t expr, int64_t min) {
    if (expr >= p_.sizes.size()) return Bad("size expression ", expr, " of ", p_.sizes.size());
    if (unknown_[expr]) return Bad("syms.exprs[", expr, "] needs a symbol that no input gives");
    if (p_.slots.size() >= kMaxSlots) return Bad("more than ", kMaxSlots, " sizes");
    const uint32_t slot = static_cast<uint32_t>(p_.slots.size());
    if (p_.sizes.IsConstant(expr)) {
      const int64_t value = p_.sizes.constants()[expr];
      if (value < min) return Bad("syms.exprs[", expr, "] is ", value, ", want at least ", min);
      p_.slots.push_back(value);
    } else {
      p_.slots.push_back(0);
      p_.dynamic_slots.push_back({slot, expr, min});
    }
    return slot;
  }

  absl::Status AddSlot(uint32_t expr, int64_t min, uint32_t* slot) {
    absl::StatusOr<uint32_t> added = Slot(expr, min);
    if (added.ok()) *slot = *added;
    return added.status();
  }

  // --- values ---

  absl::Status AddInputs() {
    if (function_.values_size() < function_.inputs_size()) return Bad("fewer values than inputs");
    for (int i = 0; i < function_.inputs_size(); ++i) {
      Program::Input input;
      const v1::Input& in = function_.inputs(i);
      if (in.kind_case() == v1::Input::kSym) {
        const int64_t symbol = in.sym() < p_.sizes.size() ? p_.sizes.AsSymbol(in.sym()) : -1;
        if (symbol < 0) return Bad("input ", i, ": `sym` is not a symbol");
        input.is_symbol = true;
        input.symbol = static_cast<uint32_t>(symbol);
      } else if (in.kind_case() != v1::Input::kType) {
        return Bad("input ", i, ": neither tensor nor symbol");
      }
      p_.inputs.push_back(input);
    }
    if (!is_first_) return absl::OkStatus();
    for (uint32_t i : artifact_.signature().mutated_inputs()) {
      if (i >= p_.inputs.size()) return Bad("signature.mutated_inputs: no input ", i);
      p_.inputs[i].mutated = true;
    }
    return absl::OkStatus();
  }

  absl::Status AddValues() {
    life_.assign(static_cast<size_t>(function_.values_size()), Life::kUnborn);
    for (int i = 0; i < function_.values_size(); ++i) {
      Program::Value value;
      const bool is_symbol = static_cast<size_t>(i) < p_.inputs.size() && p_.inputs[static_cast<size_t>(i)].is_symbol;
      if (!is_symbol) {
        if (absl::Status s = AddValue(function_.values(i), static_cast<uint32_t>(i), &value); !s.ok()) {
          return Bad("value ", i, ": ", s.message());
        }
      }
      p_.values.push_back(value);
    }
    return absl::OkStatus();
  }

  absl::Status AddValue(const v1::PlanValue& in, uint32_t id, Program::Value* value) {
    if (!v1::PlanValue::Storage_IsValid(in.storage()) || in.storage() == Storage::STORAGE_UNSPECIFIED) {
      return Bad("unknown storage");
    }
    if ((in.storage() == Storage::INPUT) != (id < p_.inputs.size()))
      return Bad("inputs are the first values, all of them");
    if (ByteSize(in.dtype()) == 0) return Bad("unknown dtype");
    if (!v1::DeviceType_IsValid(in.device())) return Bad("unknown device");
    if (in.sizes_size() != in.strides_size()) return Bad("as many strides as sizes, please");
    if (in.sizes_size() > static_cast<int>(kMaxRank)) return Bad("more than ", kMaxRank, " dimensions");
    value->storage = in.storage();
    value->dtype = in.dtype();
    value->device = in.device() == v1::CUDA ? v1::CUDA : v1::CPU;
    value->rank = static_cast<uint32_t>(in.sizes_size());
    value->shape = static_cast<uint32_t>(p_.slots.size());
    for (const auto* exprs : {&in.sizes(), &in.strides()}) {
      for (uint32_t expr : *exprs) {
        if (absl::StatusOr<uint32_t> slot = Slot(expr, 0); !slot.ok()) return slot.status();
      }
    }
    return AddPlace(in, id, value);
  }

  // Where the value's memory is.
  absl::Status AddPlace(const v1::PlanValue& in, uint32_t id, Program::Value* value) {
    switch (in.storage()) {
      case Storage::INPUT:
        life_[id] = Life::kLive;
        return absl::OkStatus();
      case Storage::VIEW:
        if (in.base() >= static_cast<uint32_t>(function_.values_size()) || in.base() == id)
          return Bad("no base ", in.base());
        if (in.base() < p_.inputs.size() && p_.inputs[in.base()].is_symbol)
          return Bad("base ", in.base(), " is a symbol");
        value->base = in.base();
        return AddSlot(in.offset(), kAnySize, &value->offset);
      case Storage::WORKSPACE:
        if (value->device != p_.device) return Bad("the workspace is on another device");
        p_.workspace_values.push_back(id);
        return AddSlot(in.offset(), 0, &value->offset);
      case Storage::CONSTANT:
        life_[id] = Life::kLive;
        value->base = in.base();
        return CheckConstant(*value);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status CheckConstant(const Program::Value& value) const {
    if (value.base >= static_cast<uint32_t>(artifact_.constants_size())) return Bad("no constant ", value.base);
    if (!p_.dynamic_slots.empty() && p_.dynamic_slots.back().slot >= value.shape)
      return Bad("a constant of unknown size");
    const std::optional<int64_t> bytes = p_.ByteExtent(value, p_.slots);
    const size_t have = artifact_.constants(static_cast<int>(value.base)).data().size();
    if (!bytes || static_cast<uint64_t>(*bytes) != have) return Bad("constant ", value.base, " has ", have, " bytes");
    return absl::OkStatus();
  }

  absl::Status AddWorkspace() {
    if (p_.sizes.size() == 0 && p_.workspace_values.empty()) {
      p_.slots.push_back(0);
      p_.workspace = static_cast<uint32_t>(p_.slots.size() - 1);
      return absl::OkStatus();
    }
    if (absl::Status s = AddSlot(function_.workspace(), 0, &p_.workspace); !s.ok()) return s;
    // With symbols in play the run time checks, at each call.
    return p_.dynamic_slots.empty() ? p_.CheckWorkspace(p_.slots) : absl::OkStatus();
  }

  // --- steps ---

  absl::Status AddSteps() {
    for (int i = 0; i < function_.steps_size(); ++i) {
      if (absl::Status s = AddStep(function_.steps(i)); !s.ok()) return Bad("step ", i, ": ", s.message());
    }
    return absl::OkStatus();
  }

  absl::Status AddStep(const v1::Step& step) {
    switch (step.kind_case()) {
      case v1::Step::kAllocate:
        return AddAllocate(step.allocate());
      case v1::Step::kLaunch:
        return AddLaunch(step.launch());
      case v1::Step::kExternal:
        return AddExternal(step.external());
      case v1::Step::kView:
        return AddView(step.view());
      case v1::Step::kRelease:
        return AddRelease(step.release());
      case v1::Step::kCopy:
        return AddCopy(step.copy());
      default:
        return Bad("unknown kind");
    }
  }

  absl::Status CheckValue(uint32_t id) const {
    if (id >= p_.values.size()) return Bad("no value ", id);
    if (p_.values[id].storage == Storage::STORAGE_UNSPECIFIED) return Bad("value ", id, " is a symbol");
    return absl::OkStatus();
  }

  absl::Status CheckTensor(uint32_t id) const {
    if (absl::Status s = CheckValue(id); !s.ok()) return s;
    if (life_[id] != Life::kLive) return Bad("value ", id, " has no tensor here");
    return absl::OkStatus();
  }

  // The value's memory is there: its own tensor's, or the memory that it is a view of. Marks its address as needed.
  absl::Status CheckMemory(uint32_t id) {
    if (absl::Status s = CheckValue(id); !s.ok()) return s;
    bool there = false;
    uint32_t v = id;
    for (uint32_t depth = 0;; ++depth) {
      if (depth > kMaxViewDepth) return Bad("value ", id, ": views nest too deep");
      p_.values[v].needs_data = true;
      there |= life_[v] == Life::kLive || p_.values[v].storage == Storage::WORKSPACE;
      if (p_.values[v].storage != Storage::VIEW) break;
      v = p_.values[v].base;
    }
    return there ? absl::OkStatus() : Bad("value ", id, " has no memory here");
  }

  absl::Status Bear(uint32_t id, Storage::Storage storage) {
    if (absl::Status s = CheckValue(id); !s.ok()) return s;
    if (p_.values[id].storage != storage) {
      return Bad("value ", id, " has storage ", v1::PlanValue::Storage_Name(p_.values[id].storage));
    }
    if (life_[id] != Life::kUnborn) return Bad("value ", id, " comes to life twice");
    life_[id] = Life::kLive;
    return absl::OkStatus();
  }

  void Push(Kind kind, size_t index) { p_.steps.push_back({kind, static_cast<uint32_t>(index)}); }

  absl::Status AddAllocate(uint32_t id) {
    Push(Kind::kAllocate, id);
    return Bear(id, Storage::TENSOR);
  }

  absl::Status AddView(uint32_t id) {
    Push(Kind::kView, id);
    if (absl::Status s = Bear(id, Storage::VIEW); !s.ok()) return s;
    return CheckTensor(p_.values[id].base);
  }

  absl::Status AddLaunch(const v1::Launch& in) {
    if (in.kernel() >= static_cast<uint32_t>(artifact_.kernels_size())) return Bad("no kernel ", in.kernel());
    Program::Launch launch{.kernel = in.kernel(),
                           .first_buffer = static_cast<uint32_t>(p_.buffers.size()),
                           .num_buffers = static_cast<uint32_t>(in.buffers_size()),
                           .sizes = static_cast<uint32_t>(p_.slots.size()),
                           .num_sizes = static_cast<uint32_t>(in.sizes_size()),
                           .origin = in.origin()};
    for (uint32_t id : in.buffers()) {
      if (absl::Status s = CheckMemory(id); !s.ok()) return s;
      if (p_.values[id].device != p_.device) return Bad("value ", id, " is on another device than the kernel");
      p_.buffers.push_back(id);
    }
    for (uint32_t expr : in.sizes()) {
      if (absl::StatusOr<uint32_t> slot = Slot(expr, kAnySize); !slot.ok()) return slot.status();
    }
    if (absl::Status s = AddSlot(in.extent(), 0, &launch.extent); !s.ok()) return s;
    if (absl::Status s = AddSlot(in.grain(), 1, &launch.grain); !s.ok()) return s;
    if (!p_.steps.empty() && p_.steps.back().kind == Kind::kLaunch) {
      ++p_.steps.back().count;
    } else {
      Push(Kind::kLaunch, p_.launches.size());
    }
    p_.launches.push_back(launch);
    return absl::OkStatus();
  }

  absl::Status AddExternal(const v1::External& in) {
    absl::StatusOr<ExternalCall> call = BuildExternalCall(in, [&](uint32_t expr) { return Slot(expr, kAnySize); });
    if (!call.ok()) return call.status();
    for (size_t i = 0; i < call->args.size(); ++i) {
      const CallArg& arg = call->args[i];
      const bool mutated = call->schema.args[i].mutated;
      if (absl::Status s = CheckOperand(arg, mutated); !s.ok()) return s;
      if (arg.kind != CallArg::Kind::kList) continue;
      for (int64_t k = 0; k < arg.i; ++k) {
        if (absl::Status s = CheckOperand(call->items[arg.index + static_cast<size_t>(k)], mutated); !s.ok()) return s;
      }
    }
    for (uint32_t id : call->results) {
      if (id == Program::kNoValue) continue;
      if (absl::Status s = CheckValue(id); !s.ok()) return s;
      // A result may go into a tensor that was allocated for it.
      const bool into = p_.values[id].storage == Storage::TENSOR;
      if (absl::Status s = into ? CheckTensor(id) : Bear(id, Storage::EXTERNAL); !s.ok()) return s;
    }
    Push(Kind::kExternal, p_.externals.size());
    p_.externals.push_back(*std::move(call));
    return absl::OkStatus();
  }

  absl::Status CheckOperand(const CallArg& arg, bool mutated) {
    if (arg.kind != CallArg::Kind::kTensor) return absl::OkStatus();
    if (mutated && arg.index < p_.inputs.size()) p_.inputs[arg.index].mutated = true;
    return CheckTensor(arg.index);
  }

  absl::Status AddRelease(const v1::Step::Release& in) {
    Push(Kind::kRelease, p_.releases.size());
    p_.releases.push_back({static_cast<uint32_t>(p_.released.size()), static_cast<uint32_t>(in.values_size())});
    for (uint32_t id : in.values()) {
      if (absl::Status s = CheckTensor(id); !s.ok()) return s;
      if (p_.values[id].storage == Storage::CONSTANT) return Bad("value ", id, " is a constant");
      if (id < p_.inputs.size()) p_.inputs[id].released = true;
      life_[id] = Life::kReleased;
      p_.released.push_back(id);
    }
    return absl::OkStatus();
  }

  absl::Status AddCopy(const v1::Step::Copy& in) {
    for (uint32_t id : {in.to(), in.from()}) {
      if (absl::Status s = CheckMemory(id); !s.ok()) return s;
    }
    if (p_.values[in.to()].rank != p_.values[in.from()].rank) {
      return Bad("copy of value ", in.from(), " to ", in.to(), ": shapes differ");
    }
    uint32_t owner = in.to();
    while (p_.values[owner].storage == Storage::VIEW) owner = p_.values[owner].base;
    if (p_.values[owner].storage == Storage::CONSTANT) return Bad("value ", in.to(), " is a constant");
    if (owner < p_.inputs.size()) p_.inputs[owner].mutated = true;
    Push(Kind::kCopy, p_.copies.size());
    p_.copies.push_back({in.to(), in.from()});
    return absl::OkStatus();
  }

  // --- the rest ---

  absl::Status AddOutputs() {
    std::vector<uint32_t> first(p_.values.size(), Program::kNoValue);
    for (int i = 0; i < function_.outputs_size(); ++i) {
      Program::Output out;
      const v1::PlanOutput& in = function_.outputs(i);
      if (in.kind_case() == v1::PlanOutput::kValue) {
        if (absl::Status s = CheckTensor(in.value()); !s.ok()) return Bad("output ", i, ": ", s.message());
        if (first[in.value()] == Program::kNoValue) first[in.value()] = static_cast<uint32_t>(i);
        out = {Program::Output::Kind::kValue, in.value(), first[in.value()]};
        if (in.value() < p_.inputs.size()) p_.inputs[in.value()].returned = true;
      } else if (in.kind_case() == v1::PlanOutput::kSym) {
        out.kind = Program::Output::Kind::kSize;
        if (absl::Status s = AddSlot(in.sym(), kAnySize, &out.index); !s.ok())
          return Bad("output ", i, ": ", s.message());
      } else if (in.kind_case() != v1::PlanOutput::kNone) {
        return Bad("output ", i, ": unknown kind");
      }
      p_.outputs.push_back(out);
    }
    return absl::OkStatus();
  }

  // Groups views that need an address by the value that owns the memory. One pass a level of nesting, so that a base
  // comes before its views.
  absl::Status AddViews() {
    std::vector<std::pair<uint32_t, uint32_t>> by_depth;  // depth, view
    std::vector<uint32_t> owner(p_.values.size());
    std::vector<uint32_t> count(p_.values.size() + 1);
    for (uint32_t id = 0; id < p_.values.size(); ++id) {
      uint32_t depth = 0, v = id;
      for (; p_.values[v].storage == Storage::VIEW; v = p_.values[v].base) {
        if (++depth > kMaxViewDepth) return Bad("value ", id, ": views nest too deep");
        if (p_.values[v].device != p_.values[p_.values[v].base].device)
          return Bad("value ", id, ": a view of another device's memory");
      }
      owner[id] = v;
      if (depth == 0 || !p_.values[id].needs_data) continue;
      by_depth.push_back({depth, id});
      ++count[v + 1];
    }
    std::sort(by_depth.begin(), by_depth.end());
    for (size_t v = 0; v < p_.values.size(); ++v) count[v + 1] += count[v];
    p_.first_view = count;
    p_.views.resize(by_depth.size());
    for (auto [depth, id] : by_depth) p_.views[count[owner[id]]++] = id;
    return absl::OkStatus();
  }

  absl::Status AddPredicates() {
    if (!is_first_) return absl::OkStatus();  // they are over the first function's table
    for (const v1::Predicate& in : artifact_.predicates()) {
      if (!v1::Predicate::Op_IsValid(in.op()) || in.op() == v1::Predicate::OP_UNSPECIFIED) {
        return Bad("predicate: unknown op");
      }
      Program::Predicate predicate{in.op(), 0, 0};
      if (absl::Status s = AddSlot(in.lhs(), kAnySize, &predicate.lhs); !s.ok()) return Bad("predicate: ", s.message());
      if (absl::Status s = AddSlot(in.rhs(), kAnySize, &predicate.rhs); !s.ok()) return Bad("predicate: ", s.message());
      p_.predicates.push_back(predicate);
    }
    return absl::OkStatus();
  }

  const v1::Artifact& artifact_;
  const v1::Function& function_;
  const bool is_first_;
  Program p_;
  std::vector<Life> life_;
  std::vector<bool> unknown_;  // by size expression: no input gives one of its symbols
};

}  // namespace

absl::StatusOr<Program> Program::Build(const v1::Artifact& artifact, int index) {
  return Builder(artifact, index).Build();
}

}  // namespace kiln
