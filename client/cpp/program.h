// The checked, flat form of one Function of an artifact: what the run time walks. Knows nothing of torch.
//
// A *slot* is one int64 that a size expression fills: a value's sizes and strides lie next to each other in slots, so
// that they can be handed on as arrays. Slots of constants are filled once, the others once a call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/schema.h"
#include "compiler/artifact/size_table.h"
#include "proto/artifact.pb.h"

namespace kiln {

int64_t ByteSize(v1::DType dtype);  // bytes of one element; 0 for an unknown dtype

// Whether strides a and b place every element alike: in a dimension of size 1, and in an empty tensor, they say
// nothing.
bool SameStrides(const int64_t* sizes, const int64_t* a, const int64_t* b, uint32_t rank);

// An argument of an external call, of the kind that the schema asks for.
struct CallArg {
  enum class Kind : uint8_t {
    kNone,
    kUndefined,  // None for a Tensor that is not optional: one without a value
    kTensor,  // index: value id
    kInt,
    kFloat,
    kBool,
    kSym,  // index: slot
    kString,
    kDType,         // i: v1::DType
    kLayout,        // i: torch's number
    kDevice,        // i: v1::DeviceType
    kMemoryFormat,  // i: 0 contiguous, 1 preserve, 2 channels_last, 3 channels_last_3d
    kList,          // items[index, index + i)
  };
  Kind kind = Kind::kNone;
  bool boxed = false;  // the schema's type here is T?, and this is a T
  uint32_t index = 0;
  int64_t i = 0;
  double f = 0;
  std::string s = {};
};

struct ExternalCall {
  std::string op;  // "aten.mm.default"
  std::string schema_text;
  Schema schema;
  std::vector<CallArg> args;   // one a schema argument
  std::vector<CallArg> items;  // of all lists
  // Value ids, kNoValue where the result is not wanted. Results of type Tensor[] stand here item by item.
  std::vector<uint32_t> results;
  uint32_t origin = 0;  // node of the graph, for messages
};

struct Program {
  static constexpr uint32_t kNoValue = 0xffffffff;

  struct Value {
    v1::PlanValue::Storage storage = v1::PlanValue::STORAGE_UNSPECIFIED;
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    uint32_t rank = 0;
    uint32_t shape = 0;  // slot of the first size; `rank` sizes, then `rank` strides (in elements)
    v1::DeviceType device = v1::CPU;
    uint32_t base = 0;        // VIEW: value id; CONSTANT: index into Artifact.constants
    uint32_t offset = 0;      // slot. VIEW: elements of its own dtype after the base's data; WORKSPACE: bytes
    bool needs_data = false;  // its address is used by a launch, a copy, or a view with an address
  };
  struct Input {
    bool is_symbol = false;
    uint32_t symbol = 0;    // is_symbol: the symbol that the argument gives
    bool mutated = false;   // written in place: must have the plan's strides
    bool released = false;  // has a Release step
    bool returned = false;  // is an output
  };
  // Where a symbol's value is read when the function is called.
  struct SymbolSource {
    enum class From : uint8_t { kUnused, kArgument, kSize, kStride };
    From from = From::kUnused;
    uint32_t input = 0;
    uint32_t dim = 0;
  };
  struct Launch {
    uint32_t kernel = 0;
    uint32_t first_buffer = 0;  // into buffers
    uint32_t num_buffers = 0;
    uint32_t sizes = 0;  // first slot
    uint32_t num_sizes = 0;
    uint32_t extent = 0, grain = 0;  // slots
    uint32_t origin = 0;
  };
  struct Copy {
    uint32_t to = 0, from = 0;
  };
  struct Release {
    uint32_t first = 0, count = 0;  // into released
  };
  struct Step {
    enum class Kind : uint8_t { kAllocate, kLaunch, kExternal, kView, kRelease, kCopy };
    Kind kind;
    uint32_t index;      // kAllocate, kView: value id; otherwise into the vector of that kind
    uint32_t count = 1;  // kLaunch: launches that follow each other are one step
  };
  struct Output {
    enum class Kind : uint8_t { kNone, kValue, kSize };
    Kind kind = Kind::kNone;
    uint32_t index = 0;    // value id or slot
    uint32_t same_as = 0;  // the first output that is this value: its own position, unless the value comes twice
  };
  struct DynamicSlot {
    uint32_t slot;
    uint32_t expr;
    int64_t min;  // a smaller value is an error
  };
  struct Predicate {
    v1::Predicate::Op op;
    uint32_t lhs, rhs;  // slots
  };

  std::string name;
  v1::DeviceType device = v1::CPU;  // where the kernels run, and the workspace is
  SizeTable sizes;
  std::vector<SymbolSource> symbols;  // one a symbol
  std::vector<int64_t> slots;         // initial values
  std::vector<DynamicSlot> dynamic_slots;
  std::vector<Predicate> predicates;
  std::vector<Input> inputs;
  std::vector<Value> values;
  std::vector<uint32_t> workspace_values;
  // VIEW values that need an address, grouped by the value that owns the memory, a base before its views:
  // views[first_view[v], first_view[v + 1]) for owner v.
  std::vector<uint32_t> views, first_view;
  std::vector<Step> steps;
  std::vector<Launch> launches;
  std::vector<uint32_t> buffers;  // value ids
  std::vector<ExternalCall> externals;
  std::vector<Copy> copies;
  std::vector<Release> releases;
  std::vector<uint32_t> released;  // value ids
  std::vector<Output> outputs;
  uint32_t workspace = 0;  // slot: bytes

  // Flattens functions[index] and checks all that does not depend on a call: every index is in range, every value
  // comes to life once and is used only while it lives, constants and constant sizes make sense. A program that was
  // built is safe to run whatever its sizes are, but for what its kernels do. InvalidArgument names the step or value.
  static absl::StatusOr<Program> Build(const v1::Artifact& artifact, int index);

  // Bytes from the value's data to the end of its last element; nothing if that overflows.
  std::optional<int64_t> ByteExtent(const Value& value, std::span<const int64_t> slots) const;
  // InvalidArgument if a workspace value does not lie inside the workspace.
  absl::Status CheckWorkspace(std::span<const int64_t> slots) const;
};

}  // namespace kiln
