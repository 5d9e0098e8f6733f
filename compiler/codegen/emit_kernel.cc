#include "compiler/codegen/emit_kernel.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_convert.h"
#include "compiler/codegen/emit_nans.h"
#include "compiler/codegen/emit_scalar.h"

namespace kiln::codegen {
namespace {

std::string OpName(loop::Op op) { return std::string(loop::Name(op)); }
std::string TypeName(DType type) { return std::string(Name(type)); }

void NumberChecks(const loop::Block& block, uint32_t first_value, int64_t& next, std::vector<int64_t>& numbers) {
  for (const loop::Stmt& stmt : block) {
    if (const auto* let = std::get_if<loop::Let>(&stmt.node)) {
      if (let->op == loop::Op::kCheckIndex) numbers[let->result - first_value] = next++;
    } else if (const auto* loop = std::get_if<loop::For>(&stmt.node)) {
      NumberChecks(loop->body, first_value, next, numbers);
    } else if (const auto* reduce = std::get_if<loop::Reduce>(&stmt.node)) {
      NumberChecks(reduce->body, first_value, next, numbers);
    }
  }
}

size_t NumGlobals(const loop::Kernel& kernel) {
  return static_cast<size_t>(std::ranges::count(kernel.buffers, loop::Space::kGlobal, &loop::Buffer::space));
}

// artifact/abi.h's KernelFn.
std::vector<llvm::Type*> HostParameters(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  return {pointer, pointer, i64, i64, pointer};
}

// Buffers and sizes, each by itself.
std::vector<llvm::Type*> SimtParameters(const loop::Kernel& kernel, llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::get(context, kGlobalSpace);
  std::vector<llvm::Type*> types(NumGlobals(kernel), pointer);
  types.resize(types.size() + kernel.num_sizes, llvm::Type::getInt64Ty(context));
  return types;
}

// The frame that debug locations need; its names mean nothing.
void AddSubprogram(llvm::Function* function) {
  llvm::Module& module = *function->getParent();
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  llvm::DIBuilder debug(module);
  llvm::DIFile* file = debug.createFile("kernel", "");
  debug.createCompileUnit(llvm::dwarf::DW_LANG_C, file, "kiln", /*isOptimized=*/true, "", 0, "",
                          llvm::DICompileUnit::DebugDirectivesOnly);
  function->setSubprogram(debug.createFunction(file, function->getName(), "", file, 1,
                                               debug.createSubroutineType(debug.getOrCreateTypeArray({})), 1,
                                               llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition));
  debug.finalize();
}

}  // namespace

KernelEmitter::KernelEmitter(const loop::Kernel& kernel, const EmitTarget& target, llvm::Function* function)
    : kernel_(kernel),
      syms_(*kernel.syms),
      function_(function),
      b_(function->getContext()),
      context_{b_, target, *function->getParent()},
      index_(
          syms_, b_, [this](uint32_t index) { return SizeParameter(index); },
          [this](loop::ValueId id) -> const LoopValue& { return ValueOf(id); }, target.simt),
      alias_(kernel, target.simt, function->getContext()),
      short_nans_(FindShortNans(kernel, target)),
      values_(kernel.num_values),
      buffers_(kernel.buffers.size()),
      check_numbers_(kernel.num_values),
      is_simt_(target.simt),
      can_stream_(target.streaming_stores) {}

void KernelEmitter::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

absl::Status KernelEmitter::Run() {
  int64_t checks = 0;
  NumberChecks(kernel_.body, kernel_.first_value, checks, check_numbers_);
  b_.SetInsertPoint(llvm::BasicBlock::Create(function_->getContext(), "entry", function_));
  index_.EnterScope();
  EmitBlock(kernel_.body);
  index_.LeaveScope();
  if (streamed_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  b_.CreateRetVoid();
  return status_.ok() ? index_.status() : status_;
}

llvm::Value* KernelEmitter::SizeParameter(uint32_t index) {
  if (index >= kernel_.num_sizes) {
    Fail(absl::InternalError(absl::StrCat("s", index, " is not a parameter")));
    return llvm::PoisonValue::get(b_.getInt64Ty());
  }
  if (is_simt_) return function_->getArg(static_cast<unsigned>(NumGlobals(kernel_)) + index);
  llvm::Value* pointer = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function_->getArg(kSizes), index);
  return b_.CreateAlignedLoad(b_.getInt64Ty(), pointer, llvm::Align(8));
}

const LoopValue& KernelEmitter::ValueOf(loop::ValueId id) const {
  static const LoopValue kNothing;
  const uint32_t i = id - kernel_.first_value;
  return i < values_.size() ? values_[i] : kNothing;
}

void KernelEmitter::Bind(loop::ValueId id, DType type, llvm::Value* value) {
  const uint32_t i = id - kernel_.first_value;
  if (i >= values_.size()) return Fail(absl::InternalError(absl::StrCat("v", id, " is out of range")));
  values_[i] = {value, type, value->getType()->isVectorTy(), index_.depth()};
}

llvm::Value* KernelEmitter::InLanes(loop::ValueId id) {
  const LoopValue& value = ValueOf(id);
  return value.varying ? value.value : Splat(b_, value.value, index_.vector_axis().lanes);
}

llvm::Value* KernelEmitter::Extent(const loop::Axis& axis) {
  if (index_.IsVarying(axis.extent)) {
    Fail(absl::UnimplementedError(absl::StrCat("extent of i", axis.id, " varies over a vector axis")));
    return b_.getInt64(0);
  }
  llvm::Value* extent = index_.Uniform(axis.extent);
  if (syms_.RangeOf(axis.extent).min >= 0) return extent;
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, extent, b_.getInt64(0));
}

llvm::Value* KernelEmitter::TailMask(llvm::Value* first, llvm::Value* extent, unsigned lanes) {
  llvm::Value* left = b_.CreateTrunc(b_.CreateSub(extent, first), b_.getInt32Ty());
  return b_.CreateICmpULT(Iota(b_.getInt32Ty(), lanes), Splat(b_, left, lanes));
}

void KernelEmitter::SetLocation(uint32_t origin) {
  llvm::DISubprogram* scope = function_->getSubprogram();
  if (scope == nullptr || origin == loop::kNone) return;
  b_.SetCurrentDebugLocation(llvm::DILocation::get(function_->getContext(), origin + 1, 0, scope));
}

void KernelEmitter::EmitBlock(const loop::Block& block) {
  if (nesting_ > loop::kMaxNesting + 1) return Fail(absl::InternalError("statements nested too deeply"));
  ++nesting_;
  for (const loop::Stmt& stmt : block) {
    if (!status_.ok()) break;
    const llvm::DebugLoc outer = b_.getCurrentDebugLocation();
    SetLocation(stmt.origin);
    if (const auto* let = std::get_if<loop::Let>(&stmt.node)) {
      EmitLet(*let);
    } else if (const auto* store = std::get_if<loop::Store>(&stmt.node)) {
      EmitStore(*store);
    } else if (const auto* prefetch = std::get_if<loop::Prefetch>(&stmt.node)) {
      EmitPrefetch(*prefetch);
    } else if (const auto* loop = std::get_if<loop::For>(&stmt.node)) {
      EmitFor(*loop);
    } else if (const auto* reduce = std::get_if<loop::Reduce>(&stmt.node)) {
      EmitReduce(*reduce);
    } else {
      EmitBarrier();
    }
    b_.SetCurrentDebugLocation(outer);
  }
  --nesting_;
}

void KernelEmitter::EmitLet(const loop::Let& let) {
  switch (let.op) {
    case loop::Op::kConst:
      return Bind(let.result, let.type, ConstantBits(b_.getContext(), let.type, let.imm));
    case loop::Op::kIndex:
      return EmitIndex(let);
    case loop::Op::kLoad:
      return EmitLoad(let);
    case loop::Op::kCheckIndex:
      return EmitCheckIndex(let);
    default:
      break;
  }
  bool varying = false;
  for (const loop::ValueId arg : let.args) {
    if (ValueOf(arg).value == nullptr) return Fail(absl::InternalError(absl::StrCat("v", arg, " is not defined here")));
    varying |= ValueOf(arg).varying;
  }
  if (let.args.size() != static_cast<size_t>(loop::Arity(let.op)) || let.args.empty()) {
    return Fail(absl::InternalError(absl::StrCat(OpName(let.op), " with ", let.args.size(), " operands")));
  }
  if (CompareAlike(let)) return;
  llvm::SmallVector<llvm::Value*, 3> args;
  for (const loop::ValueId arg : let.args) args.push_back(varying ? InLanes(arg) : ValueOf(arg).value);
  const DType from = ValueOf(let.args[let.op == loop::Op::kSelect ? 1 : 0]).type;
  llvm::Value* value = nullptr;
  if (let.op == loop::Op::kCast) {
    value = EmitCast(context_, from, let.type, args[0], short_nans_[let.args[0] - kernel_.first_value]);
  } else if (let.op == loop::Op::kBitcast) {
    value = EmitBitcast(context_, from, let.type, args[0]);
  } else {
    value = EmitOp(context_, let.op, from, args);
  }
  if (value == nullptr) {
    return Fail(absl::UnimplementedError(
        absl::StrCat("no code for ", OpName(let.op), " of ", TypeName(from), " to ", TypeName(let.type))));
  }
  Bind(let.result, let.type, value);
}

void KernelEmitter::EmitIndex(const loop::Let& let) {
  if (!index_.IsVarying(let.index)) return Bind(let.result, let.type, index_.Uniform(let.index));
  const IndexPattern pattern = index_.Pattern(let.index);
  llvm::Value* value = Splat(b_, pattern.start, index_.vector_axis().lanes);
  if (pattern.offsets != nullptr) value = b_.CreateAdd(value, pattern.offsets);
  Bind(let.result, let.type, value);
  if (pattern.starts_on_vector) values_[let.result - kernel_.first_value].vector_start = pattern.start;
}

// i < n and n <= i are the same for all lanes where these begin at a multiple of their number, of which n is one too:
// the parts of a concatenation are mostly told apart vector by vector.
bool KernelEmitter::CompareAlike(const loop::Let& let) {
  if (let.op != loop::Op::kLt && let.op != loop::Op::kLe) return false;
  const bool less = let.op == loop::Op::kLt;
  const LoopValue& index = ValueOf(let.args[less ? 0 : 1]);
  const LoopValue& bound = ValueOf(let.args[less ? 1 : 0]);
  const auto* n = llvm::dyn_cast<llvm::ConstantInt>(bound.value);
  if (index.vector_start == nullptr || n == nullptr || n->getSExtValue() % index_.vector_axis().lanes != 0)
    return false;
  llvm::Value* start = index.vector_start;
  llvm::Value* value = less ? b_.CreateICmpSLT(start, bound.value) : b_.CreateICmpSLE(bound.value, start);
  Bind(let.result, let.type, value);
  return true;
}

void KernelEmitter::EmitIteration(const loop::Axis& axis, llvm::Value* i, const VectorAxis& vector,
                                  const loop::Block& body) {
  const VectorAxis outer = index_.vector_axis();
  index_.EnterScope();
  index_.BindAxis(axis.id, i);
  index_.SetVectorAxis(vector);
  EmitBlock(body);
  index_.SetVectorAxis(outer);
  index_.LeaveScope();
}

void KernelEmitter::EmitFor(const loop::For& loop) {
  llvm::Value* begin = b_.getInt64(0);
  llvm::Value* end = nullptr;
  switch (loop.axis.kind) {
    case loop::AxisKind::kVector:
      return EmitVectorFor(loop);
    case loop::AxisKind::kParallel:
      if (nesting_ != 1) return Fail(absl::InternalError("a parallel axis that is not the outermost"));
      if (is_simt_) {
        EmitIteration(loop.axis, BlockId(), index_.vector_axis(), loop.body);
        return;
      }
      begin = function_->getArg(kBegin);
      end = function_->getArg(kEnd);
      break;
    case loop::AxisKind::kSerial:
      end = Extent(loop.axis);
      break;
    case loop::AxisKind::kThread:
      return EmitThreadFor(loop);
  }
  EmitLoop(b_, begin, end, 1, {}, [&](llvm::Value* i, const Values&) {
    EmitIteration(loop.axis, i, index_.vector_axis(), loop.body);
    return Values();
  });
}

// Full vectors, then one masked one for what is left.
void KernelEmitter::EmitVectorFor(const loop::For& loop) {
  if (index_.vector_axis().lanes != 1) return Fail(absl::InternalError("a vector axis inside a vector axis"));
  const loop::Axis& axis = loop.axis;
  unsigned lanes = axis.width;
  if (const auto constant = syms_.AsConst(axis.extent); constant && *constant > 0 && *constant < lanes) {
    lanes = static_cast<unsigned>(std::bit_ceil(static_cast<uint64_t>(*constant)));
  }
  if (lanes > loop::kMaxVectorWidth || !std::has_single_bit(lanes)) {
    return Fail(absl::InternalError(absl::StrCat("width ", lanes, " of i", axis.id)));
  }
  llvm::Value* extent = Extent(axis);
  const bool has_tail = lanes > 1 && !syms_.ProvablyDivisible(axis.extent, syms_.Const(lanes));
  llvm::Value* full = has_tail ? b_.CreateAnd(extent, -static_cast<int64_t>(lanes)) : extent;
  EmitLoop(b_, b_.getInt64(0), full, lanes, {}, [&](llvm::Value* i, const Values&) {
    EmitIteration(axis, i, {axis.id, lanes, i, nullptr}, loop.body);
    return Values();
  });
  if (!has_tail) return;
  EmitIf(b_, b_.CreateICmpSLT(full, extent), {}, [&] {
    EmitIteration(axis, full, {axis.id, lanes, full, TailMask(full, extent, lanes)}, loop.body);
    return Values();
  });
}

}  // namespace kiln::codegen

namespace kiln {

absl::StatusOr<llvm::Function*> EmitKernel(const loop::Kernel& kernel, std::string_view symbol,
                                           const EmitTarget& target, llvm::Module& module, bool origins) {
  llvm::LLVMContext& context = module.getContext();
  auto* type = llvm::FunctionType::get(
      llvm::Type::getVoidTy(context),
      target.simt ? codegen::SimtParameters(kernel, context) : codegen::HostParameters(context), false);
  llvm::Function* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                                    llvm::StringRef(symbol.data(), symbol.size()), module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  if (origins) codegen::AddSubprogram(function);
  const absl::Status status = codegen::KernelEmitter(kernel, target, function).Run();
  if (!status.ok()) return status;
  return function;
}

}  // namespace kiln
