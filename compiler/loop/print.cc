#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loop/const_text.h"
#include "compiler/loop/text.h"

namespace kiln::loop {
namespace {

std::string Str(std::string_view text) { return std::string(text); }

std::string_view SpaceName(Space space) {
  switch (space) {
    case Space::kGlobal:
      return "";
    case Space::kShared:
      return "shared ";
    case Space::kRegister:
      return "register ";
  }
  return "";
}

std::string_view AccessName(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kReadWrite:
      return "readwrite";
  }
  return "";
}

std::string RangeText(SymRange range) {
  const std::string min = range.min == std::numeric_limits<int64_t>::min() ? "(-inf" : absl::StrCat("[", range.min);
  const std::string max = range.max == kSymUnbounded ? "inf)" : absl::StrCat(range.max, "]");
  return absl::StrCat(min, ", ", max);
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel, std::vector<const Stmt*>* lines = nullptr) : kernel_(kernel), lines_(lines) {}

  std::string Print() {
    Line("kernel {");
    ++depth_;
    PrintSizes();
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[i];
      Line("buffer b", i, ": ", Str(Name(buffer.dtype)), "[", Text(buffer.size), "] ", Str(SpaceName(buffer.space)),
           Str(AccessName(buffer.access)));
    }
    PrintBlock(kernel_.body);
    --depth_;
    Line("}");
    return std::move(out_);
  }

 private:
  template <typename... Parts>
  void Line(const Parts&... parts) {
    out_.append(2 * depth_, ' ');
    absl::StrAppend(&out_, parts..., "\n");
    if (lines_ != nullptr) lines_->push_back(stmt_);
  }

  std::string Text(Sym s) const { return kernel_.syms->ToString(s); }

  static std::string List(const std::vector<ValueId>& values) {
    std::string out;
    for (ValueId value : values) absl::StrAppend(&out, out.empty() ? "v" : ", v", value);
    return out;
  }

  void PrintSizes() {
    if (kernel_.num_sizes == 0) return;
    std::string sizes;
    for (uint32_t i = 0; i < kernel_.num_sizes; ++i) {
      absl::StrAppend(&sizes, i == 0 ? "s" : ", s", i, " in ", RangeText(kernel_.syms->Range({VarKind::kSize, i})));
    }
    Line("sizes ", sizes);
  }

  void PrintBlock(const Block& block) {
    for (const Stmt& stmt : block) {
      const Stmt* outer = std::exchange(stmt_, &stmt);
      std::visit([this](const auto& node) { PrintStmt(node); }, stmt.node);
      stmt_ = outer;
    }
  }

  std::string AxisText(const Axis& axis) const {
    std::string out = absl::StrCat(Str(Name(axis.kind)), " i", axis.id, " in 0..", Text(axis.extent));
    if (axis.kind == AxisKind::kVector) absl::StrAppend(&out, " width ", axis.width);
    if (axis.kind == AxisKind::kThread) absl::StrAppend(&out, " width ", axis.width, " lanes ", axis.lanes);
    if (axis.kind == AxisKind::kParallel && axis.grain != Sym{}) absl::StrAppend(&out, " grain ", Text(axis.grain));
    return out;
  }

  std::string LetText(const Let& let) const {
    const std::string name = Str(Name(let.op));
    switch (let.op) {
      case Op::kConst:
        return absl::StrCat(name, " ", ConstText(let.type, let.imm));
      case Op::kIndex:
        return absl::StrCat(name, " ", Text(let.index));
      case Op::kCheckIndex:
        return absl::StrCat(name, " ", List(let.args), " in ", Text(let.index));
      case Op::kLoad: {
        std::string out = absl::StrCat(name, " b", let.buffer, "[", Text(let.index), "]");
        if (let.mask != kNone) absl::StrAppend(&out, " mask v", let.mask, " else v", let.other);
        return out;
      }
      default:
        return absl::StrCat(name, " ", List(let.args));
    }
  }

  void PrintStmt(const Let& let) { Line("v", let.result, ": ", Str(Name(let.type)), " = ", LetText(let)); }

  void PrintStmt(const Store& store) {
    Line("store b", store.buffer, "[", Text(store.index), "] = v", store.value,
         store.mask == kNone ? "" : absl::StrCat(" mask v", store.mask), store.streaming ? " streaming" : "");
  }

  void PrintStmt(const Prefetch& prefetch) { Line("prefetch b", prefetch.buffer, "[", Text(prefetch.index), "]"); }

  void PrintStmt(const For& loop) {
    Line(AxisText(loop.axis), " {");
    ++depth_;
    PrintBlock(loop.body);
    --depth_;
    Line("}");
  }

  void PrintStmt(const Reduce& reduce) {
    std::string types;
    for (DType type : reduce.types) absl::StrAppend(&types, types.empty() ? "" : ", ", Str(Name(type)));
    Line("reduce (", List(reduce.results), "): (", types, ") over ", AxisText(reduce.axis),
         reduce.accumulators == 1 ? "" : absl::StrCat(" accumulators ", reduce.accumulators), " init (",
         List(reduce.init), ") {");
    ++depth_;
    PrintBlock(reduce.body);
    Line("yield ", List(reduce.yields));
    --depth_;
    Line("} combine (", List(reduce.a), "), (", List(reduce.b), ") {");
    ++depth_;
    PrintBlock(reduce.combine);
    Line("yield ", List(reduce.combined));
    --depth_;
    Line("}");
  }

  void PrintStmt(const Barrier&) { Line("barrier"); }

  const Kernel& kernel_;
  std::vector<const Stmt*>* const lines_;
  const Stmt* stmt_ = nullptr;
  std::string out_;
  size_t depth_ = 0;
};

}  // namespace

std::string ToText(const Kernel& kernel) { return Printer(kernel).Print(); }

std::string ToText(const Kernel& kernel, std::vector<const Stmt*>& lines) { return Printer(kernel, &lines).Print(); }

}  // namespace kiln::loop
