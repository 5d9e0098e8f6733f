// All op records, found by name. The table is generated from the KILN_OP lines of defs/*.cc (ops.bzl).
#pragma once

#include <span>
#include <string_view>

#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"

namespace kiln {

// Every record, sorted by name. Thread-safe, as is all of this header.
std::span<const OpDef* const> AllOps();

// By kiln's own name ("add"); null if there is none.
const OpDef* FindOp(std::string_view name);

// By torch's overload ("aten.add.Tensor") and the schema that the client's torch has for it; null if no record means
// this overload, or if the schema is not one that the record takes (another version's arguments): the node then runs as
// an external call.
const OpDef* FindTorchOp(std::string_view overload, std::string_view schema);
const OpDef* FindTorchOp(std::string_view overload);

// The record of a node in text form, by kiln's name or torch's overload; gives `op` the record's schema if it has none.
const OpDef* ResolveOp(OpName& op);

// The record's schema, parsed. A record's schema always parses: registry_test sees to it.
const Schema& SchemaOf(const OpDef& def);

// Whether the node has a meaning that covers it: its record has one, which takes these element types and arguments.
// Without, the node runs as an external call.
bool HasMeaning(const Call& call);

// What the partitioner and the scheduler must know of a node, with or without a record: operators that take a Generator
// are random, operators that write an argument or give nothing have an effect.
Traits TraitsOf(const Call& call);

// The types of the results as eager gives them, strides included. InvalidArgument for operands that eager refuses too;
// also for a node without a record.
absl::StatusOr<TypeList> InferTypes(const Call& call);

// Checks an imported node: arguments against the record's schema, and the results' number, dtypes, sizes and device
// against the record's shape rule (strides are the client's to say). InvalidArgument that names what differs.
absl::Status VerifyCall(const Call& call);

}  // namespace kiln
