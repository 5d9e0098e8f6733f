// Nodes of records, for decompositions and derivatives: b.mul(g, b.exp(x)) adds two nodes with their result types
// inferred.
//
// One method a record, under the record's name, generated. Arguments are in schema order; those left out at the end
// take the schema's defaults. An argument is a ValueId, a number, a bool, a Sym, a dtype, a string, None
// (std::nullopt), or a vector of values, Syms or integers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/graph/builder.h"
#include "compiler/ops/handles.h"
#include "compiler/ops/op_def.h"

namespace kiln {

// Writes into a GraphBuilder, which outlives it. A wrong call (arguments that do not fit the schema, operands that the
// shape rule refuses) is a bug of the caller: it is remembered in the GraphBuilder's status, and gives kNoValue.
class OpBuilder {
 public:
  explicit OpBuilder(GraphBuilder& graph) : graph_(graph) {}

  GraphBuilder& graph() { return graph_; }
  SymContext& syms() { return graph_.syms(); }
  const TensorType& type(ValueId value) const { return *graph_.graph().type(value); }

  // All results of a record's node; empty after an error.
  std::vector<ValueId> Add(const OpDef& def, std::vector<Arg> args);

#include "compiler/ops/op_builder_methods.inc"

 private:
  ValueId One(const OpDef& def, std::vector<Arg> args);
  std::vector<ValueId> Fail(const OpDef& def, const absl::Status& status);

  Arg ToArg(Arg arg) { return arg; }
  Arg ToArg(ValueId value) { return Arg{ValueRef{value}}; }
  Arg ToArg(Sym sym) { return Arg{sym}; }
  Arg ToArg(int value) { return Arg{syms().Const(value)}; }
  Arg ToArg(int64_t value) { return Arg{syms().Const(value)}; }
  Arg ToArg(double value) { return Arg{value}; }
  Arg ToArg(bool value) { return Arg{value}; }
  Arg ToArg(const char* value) { return Arg{std::string(value)}; }
  Arg ToArg(std::string_view value) { return Arg{std::string(value)}; }
  Arg ToArg(DType dtype) { return Arg{dtype}; }
  Arg ToArg(DeviceType device) { return Arg{device}; }
  Arg ToArg(MemoryFormat format) { return Arg{format}; }
  Arg ToArg(std::nullopt_t) { return Arg{}; }
  template <typename T>
  Arg ToArg(const std::vector<T>& items) {
    ArgList list;
    for (const T& item : items) list.push_back(ToArg(item));
    return Arg{std::move(list)};
  }

  GraphBuilder& graph_;
};

}  // namespace kiln
