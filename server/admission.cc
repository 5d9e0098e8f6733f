#include "server/admission.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/status.h"

namespace kiln {
namespace {

// Tables besides nodes and symbols: entries a node, and a floor for small graphs.
constexpr uint64_t kTableEntriesPerNode = 8;
constexpr uint64_t kArgsPerNode = 64;
constexpr size_t kMaxNameBytes = 64 << 10;  // of one op name, schema or guard value
constexpr size_t kMaxRank = 64;
constexpr absl::Duration kRetryWhenFull = absl::Seconds(2);

absl::Status Over(const std::string& field, uint64_t have, uint64_t bound) {
  return absl::ResourceExhaustedError(absl::StrCat(field, ": ", have, ", the server's bound is ", bound));
}

absl::Status Within(const char* field, uint64_t have, uint64_t bound) {
  return have <= bound ? absl::OkStatus() : Over(field, have, bound);
}

absl::Status CheckTables(const v1::CompileRequest& r, const v1::Config::Limits& limits) {
  const uint64_t table = kTableEntriesPerNode * limits.nodes();
  const v1::Graph& g = r.graph();
  const v1::GuardSpec& guards = r.guards();
  struct Bound {
    const char* field;
    int have;
    uint64_t bound;
  };
  for (const Bound& b :
       std::initializer_list<Bound>{{"graph.nodes", g.nodes_size(), limits.nodes()},
                                    {"graph.syms.symbols", g.syms().symbols_size(), limits.symbols()},
                                    {"graph.syms.exprs", g.syms().exprs_size(), table},
                                    {"graph.types", g.types_size(), table},
                                    {"graph.ops", g.ops_size(), limits.nodes()},
                                    {"graph.inputs", g.inputs_size(), limits.nodes()},
                                    {"graph.constants", g.constants_size(), limits.nodes()},
                                    {"graph.outputs", g.outputs_size(), limits.nodes()},
                                    {"guards.syms.symbols", guards.syms().symbols_size(), limits.symbols()},
                                    {"guards.syms.exprs", guards.syms().exprs_size(), table},
                                    {"guards.types", guards.types_size(), table},
                                    {"guards.inputs", guards.inputs_size(), limits.nodes()},
                                    {"guards.predicates", guards.predicates_size(), table},
                                    {"guards.globals", guards.globals_size(), 1024},
                                    {"debug.node_names", r.debug().node_names_size(), limits.nodes()},
                                    {"debug.stack_traces", r.debug().stack_traces_size(), limits.nodes()},
                                    {"debug.input_names", r.debug().input_names_size(), limits.nodes()}}) {
    if (absl::Status s = Within(b.field, static_cast<uint64_t>(b.have), b.bound); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const char* field, const google::protobuf::RepeatedPtrField<v1::TensorType>& types) {
  for (int i = 0; i < types.size(); ++i) {
    const size_t rank = static_cast<size_t>(std::max(types[i].sizes_size(), types[i].strides_size()));
    if (rank > kMaxRank) return Over(absl::StrCat(field, "[", i, "]: rank"), rank, kMaxRank);
  }
  return absl::OkStatus();
}

absl::Status CheckNames(const v1::CompileRequest& r) {
  for (int i = 0; i < r.graph().ops_size(); ++i) {
    const size_t size = std::max(r.graph().ops(i).name().size(), r.graph().ops(i).schema().size());
    if (size > kMaxNameBytes) return Over(absl::StrCat("graph.ops[", i, "]: bytes"), size, kMaxNameBytes);
  }
  for (int i = 0; i < r.guards().globals_size(); ++i) {
    const size_t size = std::max(r.guards().globals(i).name().size(), r.guards().globals(i).value().size());
    if (size > kMaxNameBytes) return Over(absl::StrCat("guards.globals[", i, "]: bytes"), size, kMaxNameBytes);
  }
  return absl::OkStatus();
}

absl::Status CheckNodes(const v1::Graph& graph, const v1::Config::Limits& limits) {
  const uint64_t bound = kArgsPerNode * limits.nodes();
  uint64_t args = 0, results = 0;
  for (int n = 0; n < graph.nodes_size(); ++n) {
    const v1::Node& node = graph.nodes(n);
    results += static_cast<uint64_t>(node.result_types_size());
    args += static_cast<uint64_t>(node.args_size());
    for (int a = 0; a < node.args_size(); ++a) {
      if (!node.args(a).has_list()) continue;
      args += static_cast<uint64_t>(node.args(a).list().items_size());
      for (const v1::Arg& item : node.args(a).list().items()) {
        if (!item.has_list() || graph.level() == v1::Graph::TORCH) continue;
        absl::Status status =
            absl::InvalidArgumentError(absl::StrCat("graph.nodes[", n, "].args[", a, "]: a list within a list"));
        SetNode(status, n);
        return status;
      }
    }
  }
  if (absl::Status s = Within("graph.nodes: arguments of all nodes", args, bound); !s.ok()) return s;
  return Within("graph.nodes: results of all nodes", results, bound);
}

}  // namespace

absl::Status CheckBounds(const v1::CompileRequest& request, const v1::Config::Limits& limits) {
  absl::Status s = Within("request: bytes", request.ByteSizeLong(), limits.message_bytes());
  if (s.ok()) s = CheckTables(request, limits);
  if (s.ok()) s = CheckTypes("graph.types", request.graph().types());
  if (s.ok()) s = CheckTypes("guards.types", request.guards().types());
  if (s.ok()) s = CheckNames(request);
  if (s.ok()) s = CheckNodes(request.graph(), limits);
  return s;
}

absl::StatusOr<Gate::Ticket> Gate::Enter(uint64_t amount) {
  MutexLock lock(&mu_);
  if (amount > bound_ - inside_) {
    return RefusedError(absl::StatusCode::kResourceExhausted,
                        absl::StrCat(what_, ": ", inside_, ", the server's bound is ", bound_), kRetryWhenFull);
  }
  inside_ += amount;
  return Ticket(this, amount);
}

void Gate::Leave(uint64_t amount) {
  MutexLock lock(&mu_);
  inside_ -= amount;
}

uint64_t Gate::inside() const {
  MutexLock lock(&mu_);
  return inside_;
}

}  // namespace kiln
