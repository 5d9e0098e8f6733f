#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/const_text.h"
#include "compiler/loop/lexer.h"
#include "compiler/loop/text.h"

namespace kiln::loop {
namespace {

constexpr uint64_t kMaxFootprint = 1 << 22;  // of the index expressions, see SymContext
// Of all index expressions, the length of the text times the operands of the result: what parsing them costs. A short
// product of sums can be a long sum.
constexpr uint64_t kMaxExpressionWork = uint64_t{1} << 28;

// Recursive descent; depth follows the nest, which kMaxNesting bounds. Methods give false once anything failed.
class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text) {}

  absl::StatusOr<Kernel> Parse() {
    if (ParseHeader() && ParseBlock(kernel_.body, 0) && lex_.Expect("}") && !lex_.AtEnd()) {
      lex_.Fail("text behind the kernel");
    }
    if (!lex_.ok()) return lex_.status();
    return std::move(kernel_);
  }

 private:
  bool ParseHeader() {
    if (!lex_.Expect("kernel") || !lex_.Expect("{")) return false;
    if (lex_.Accept("sizes")) {
      do {
        if (!ParseSize()) return false;
      } while (lex_.Accept(","));
    }
    while (lex_.Accept("buffer")) {
      if (!ParseBuffer()) return false;
    }
    return lex_.ok();
  }

  bool ParseSize() {
    uint32_t id = 0;
    if (!lex_.Id('s', kMaxKernelSizes, id)) return false;
    if (id != kernel_.num_sizes) return lex_.Fail("sizes are numbered from 0 in order");
    SymRange range;
    if (!lex_.Expect("in")) return false;
    if (lex_.Accept("(")) {
      if (!lex_.Expect("-") || !lex_.Expect("inf")) return false;
    } else if (!lex_.Expect("[") || !lex_.Signed(range.min)) {
      return false;
    }
    if (!lex_.Expect(",")) return false;
    if (lex_.Accept("inf")) {
      if (!lex_.Expect(")")) return false;
    } else if (!lex_.Signed(range.max) || !lex_.Expect("]")) {
      return false;
    }
    if (range.min > range.max) return lex_.Fail("an empty range");
    kernel_.syms->Size(kernel_.num_sizes++, range);
    return true;
  }

  bool ParseBuffer() {
    uint32_t id = 0;
    Buffer buffer;
    if (!lex_.Id('b', kMaxKernelBuffers, id)) return false;
    if (id != kernel_.buffers.size()) return lex_.Fail("buffers are numbered from 0 in order");
    if (!lex_.Expect(":") || !ParseType(buffer.dtype) || !lex_.Expect("[") || !ParseSym(buffer.size)) return false;
    if (!lex_.Expect("]")) return false;
    if (lex_.Accept("shared")) {
      buffer.space = Space::kShared;
    } else if (lex_.Accept("register")) {
      buffer.space = Space::kRegister;
    } else {
      lex_.Accept("global");
    }
    if (lex_.Accept("read")) {
      buffer.access = Access::kRead;
    } else if (lex_.Accept("write")) {
      buffer.access = Access::kWrite;
    } else if (lex_.Expect("readwrite")) {
      buffer.access = Access::kReadWrite;
    }
    kernel_.buffers.push_back(buffer);
    return lex_.ok();
  }

  bool ParseType(DType& type) {
    const std::string_view word = lex_.Word();
    std::optional<DType> found = DTypeFromName(word);
    if (!found) return lex_.Fail(absl::StrCat("no type is called \"", std::string(word), "\""));
    type = *found;
    return true;
  }

  // Variables must be declared, and axes open.
  bool ParseSym(Sym& sym) {
    const std::string_view text = lex_.Expression();
    if (!lex_.ok()) return false;
    absl::StatusOr<Sym> parsed = kernel_.syms->Parse(text);
    if (!parsed.ok()) return lex_.Fail(std::string(parsed.status().message()));
    for (Var var : kernel_.syms->Variables(*parsed)) {
      if (var.kind != VarKind::kAxis) continue;
      if (std::find(open_axes_.begin(), open_axes_.end(), var.index) == open_axes_.end()) {
        return lex_.Fail(absl::StrCat("axis i", var.index, " is not open here"));
      }
    }
    expression_work_ += text.size() * std::min<uint64_t>(kernel_.syms->Weight(*parsed), kMaxExpressionWork);
    if (kernel_.syms->footprint() > kMaxFootprint || expression_work_ > kMaxExpressionWork) {
      return lex_.Fail("index expressions too large altogether");
    }
    sym = *parsed;
    return true;
  }

  bool NamesOnly(Sym sym, VarKind allowed, std::string_view what) {
    for (Var var : kernel_.syms->Variables(sym)) {
      if (var.kind != VarKind::kSize && var.kind != allowed) return lex_.Fail(what);
    }
    return true;
  }

  // An operand; defined somewhere, which the verifier sees to.
  bool ParseUse(ValueId& value) { return lex_.Id('v', kMaxKernelValues, value); }

  bool ParseUses(std::vector<ValueId>& values) {
    do {
      values.emplace_back();
      if (!ParseUse(values.back())) return false;
    } while (lex_.Accept(","));
    return true;
  }

  bool ParseDefinition(ValueId& value) {
    if (!ParseUse(value)) return false;
    if (value >= defined_.size()) defined_.resize(std::max<size_t>(value + 1, 2 * defined_.size()));
    if (defined_[value]) return lex_.Fail(absl::StrCat("v", value, " is defined twice"));
    defined_[value] = true;
    kernel_.num_values = std::max(kernel_.num_values, value + 1);
    return true;
  }

  // "(v1, v2)"
  bool ParseTuple(std::vector<ValueId>& values, bool define) {
    if (!lex_.Expect("(")) return false;
    do {
      values.emplace_back();
      if (!(define ? ParseDefinition(values.back()) : ParseUse(values.back()))) return false;
    } while (lex_.Accept(","));
    return lex_.Expect(")");
  }

  bool ParseBlock(Block& block, int depth) {
    while (lex_.ok() && !lex_.Peek("}") && !lex_.Peek("yield")) {
      if (lex_.AtEnd()) return lex_.Fail("the text ends inside a block");
      block.emplace_back();
      if (!ParseStmt(block.back(), depth)) return false;
    }
    return lex_.ok();
  }

  bool ParseStmt(Stmt& stmt, int depth) {
    if (lex_.Accept("store")) return ParseStore(stmt.node.emplace<Store>());
    if (lex_.Accept("prefetch")) {
      Prefetch& prefetch = stmt.node.emplace<Prefetch>();
      return ParseAccess(prefetch.buffer, prefetch.index);
    }
    if (lex_.Accept("reduce")) return ParseReduce(stmt.node.emplace<Reduce>(), depth + 1);
    if (lex_.Accept("barrier")) {
      stmt.node.emplace<Barrier>();
      return true;
    }
    for (AxisKind kind : {AxisKind::kSerial, AxisKind::kVector, AxisKind::kParallel, AxisKind::kThread}) {
      if (lex_.Accept(Name(kind))) return ParseFor(stmt.node.emplace<For>(), kind, depth + 1);
    }
    return ParseLet(stmt.node.emplace<Let>());
  }

  bool ParseLet(Let& let) {
    if (!ParseDefinition(let.result) || !lex_.Expect(":") || !ParseType(let.type) || !lex_.Expect("=")) return false;
    const std::string_view word = lex_.Word();
    std::optional<Op> op = OpFromName(word);
    if (!op) return lex_.Fail(absl::StrCat("no operation is called \"", std::string(word), "\""));
    let.op = *op;
    switch (let.op) {
      case Op::kConst:
        return ParseConst(let);
      case Op::kIndex:
        return ParseSym(let.index);
      case Op::kLoad:
        return ParseLoad(let);
      case Op::kCheckIndex: {
        if (!ParseUses(let.args) || !lex_.Expect("in") || !ParseSym(let.index)) return false;
        if (!NamesOnly(let.index, VarKind::kSize, "the bound of a checked index names sizes only")) return false;
        kernel_.syms->Value(let.result, let.index);
        return true;
      }
      default:
        return ParseUses(let.args);
    }
  }

  bool ParseConst(Let& let) {
    const std::string_view text = lex_.Constant();
    std::optional<uint64_t> bits = ConstFromText(let.type, text);
    if (!bits) return lex_.Fail(absl::StrCat("not a constant of type ", std::string(Name(let.type))));
    let.imm = *bits;
    return true;
  }

  bool ParseAccess(BufferId& buffer, Sym& index) {
    if (!lex_.Id('b', kMaxKernelBuffers, buffer)) return false;
    if (buffer >= kernel_.buffers.size()) return lex_.Fail("a buffer that is not declared");
    return lex_.Expect("[") && ParseSym(index) && lex_.Expect("]");
  }

  bool ParseLoad(Let& let) {
    if (!ParseAccess(let.buffer, let.index)) return false;
    if (!lex_.Accept("mask")) return lex_.ok();
    return ParseUse(let.mask) && lex_.Expect("else") && ParseUse(let.other);
  }

  bool ParseStore(Store& store) {
    if (!ParseAccess(store.buffer, store.index) || !lex_.Expect("=") || !ParseUse(store.value)) return false;
    if (lex_.Accept("mask") && !ParseUse(store.mask)) return false;
    store.streaming = lex_.Accept("streaming");
    return lex_.ok();
  }

  // Behind the kind: "i0 in 0..s0 width 16 grain 4". Opens the axis.
  bool ParseAxis(Axis& axis, AxisKind kind, int depth) {
    axis.kind = kind;
    if (depth > kMaxNesting) return lex_.Fail(absl::StrCat("more than ", kMaxNesting, " axes inside each other"));
    if (!lex_.Id('i', kMaxKernelAxes, axis.id)) return false;
    if (!axes_.insert(axis.id).second) return lex_.Fail(absl::StrCat("axis i", axis.id, " is declared twice"));
    kernel_.num_axes = std::max(kernel_.num_axes, axis.id + 1);
    if (!lex_.Expect("in") || !lex_.Expect("0..") || !ParseSym(axis.extent)) return false;
    if (!NamesOnly(axis.extent, VarKind::kAxis, "the extent of an axis names sizes and axes only")) return false;
    uint64_t width = 1;
    if (kind == AxisKind::kVector && (!lex_.Expect("width") || !lex_.Unsigned(kMaxVectorWidth, width))) return false;
    if (kind == AxisKind::kThread) {
      if (!lex_.Expect("width") || !lex_.Unsigned(kMaxThreads * kMaxThreadLanes, width)) return false;
      uint64_t lanes = 1;
      if (!lex_.Expect("lanes") || !lex_.Unsigned(kMaxThreadLanes, lanes)) return false;
      axis.lanes = static_cast<uint32_t>(lanes);
    }
    axis.width = static_cast<uint32_t>(width);
    if (kind == AxisKind::kParallel && lex_.Accept("grain") && !ParseSym(axis.grain)) return false;
    kernel_.syms->Axis(axis.id, axis.extent);
    open_axes_.push_back(axis.id);
    return true;
  }

  bool ParseFor(For& loop, AxisKind kind, int depth) {
    if (!ParseAxis(loop.axis, kind, depth) || !lex_.Expect("{") || !ParseBlock(loop.body, depth)) return false;
    open_axes_.pop_back();
    return lex_.Expect("}");
  }

  bool ParseReduce(Reduce& reduce, int depth) {
    if (!ParseTuple(reduce.results, true) || !lex_.Expect(":") || !lex_.Expect("(")) return false;
    do {
      if (!ParseType(reduce.types.emplace_back())) return false;
    } while (lex_.Accept(","));
    if (!lex_.Expect(")") || !lex_.Expect("over")) return false;
    const AxisKind kind = lex_.Accept("vector")   ? AxisKind::kVector
                          : lex_.Accept("thread") ? AxisKind::kThread
                                                  : AxisKind::kSerial;
    if (kind == AxisKind::kSerial && !lex_.Expect("serial")) return false;
    if (!ParseAxis(reduce.axis, kind, depth)) return false;
    uint64_t accumulators = 1;
    if (lex_.Accept("accumulators") && !lex_.Unsigned(kMaxAccumulators, accumulators)) return false;
    reduce.accumulators = static_cast<uint32_t>(accumulators);
    if (!lex_.Expect("init") || !ParseTuple(reduce.init, false) || !lex_.Expect("{")) return false;
    if (!ParseBody(reduce.body, reduce.yields, depth) || !lex_.Expect("}")) return false;
    open_axes_.pop_back();
    if (!lex_.Expect("combine") || !ParseTuple(reduce.a, true) || !lex_.Expect(",")) return false;
    if (!ParseTuple(reduce.b, true) || !lex_.Expect("{")) return false;
    return ParseBody(reduce.combine, reduce.combined, depth) && lex_.Expect("}");
  }

  bool ParseBody(Block& block, std::vector<ValueId>& yields, int depth) {
    return ParseBlock(block, depth) && lex_.Expect("yield") && ParseUses(yields);
  }

  Lexer lex_;
  Kernel kernel_;
  std::vector<bool> defined_;  // by ValueId
  absl::flat_hash_set<AxisId> axes_;
  std::vector<AxisId> open_axes_;
  uint64_t expression_work_ = 0;
};

}  // namespace

absl::StatusOr<Kernel> ParseKernel(std::string_view text) {
  if (text.size() > kMaxKernelText) {
    return absl::InvalidArgumentError(absl::StrCat("a kernel of more than ", kMaxKernelText, " bytes"));
  }
  return Parser(text).Parse();
}

}  // namespace kiln::loop
