// Loads, stores and index checks of KernelEmitter.
#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/emit_kernel.h"

namespace kiln::codegen {
namespace {

// Scratch lives on the stack of the thread that runs the kernel.
constexpr int64_t kMaxScratchBytes = 64 << 10;
// Of the caches, in bytes.
constexpr unsigned kLine = 64;

// Of a thread's access, at most.
constexpr uint64_t kMaxAccess = 16;

llvm::Value* AndMasks(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y) {
  if (x == nullptr || y == nullptr) return x == nullptr ? y : x;
  return b.CreateAnd(x, y);
}

}  // namespace

llvm::Value* KernelEmitter::Scratch(loop::BufferId buffer) {
  const loop::Buffer& info = kernel_.buffers[buffer];
  const bool shared = info.space == loop::Space::kShared;
  const std::optional<int64_t> size = syms_.AsConst(info.size);
  const int64_t elements = is_simt_ && !shared && size ? OwnElements(*size) : size.value_or(-1);
  const int64_t bytes = elements * ByteSize(info.dtype);
  if (elements < 0 || bytes > kMaxScratchBytes - scratch_bytes_ || (shared && !is_simt_)) {
    Fail(absl::UnimplementedError(absl::StrCat("scratch buffer b", buffer, ": more than ", kMaxScratchBytes,
                                               " bytes in all, or in a space that the target lacks")));
    return llvm::PoisonValue::get(b_.getPtrTy());
  }
  scratch_bytes_ += bytes;
  llvm::Type* element = MemoryType(b_.getContext(), info.dtype);
  if (is_simt_ && shared) return SharedArray(element, static_cast<uint64_t>(elements));
  llvm::AllocaInst* place = b_.CreateAlloca(llvm::ArrayType::get(element, static_cast<uint64_t>(elements)));
  place->setAlignment(llvm::Align(64));
  return place;
}

llvm::Value* KernelEmitter::BufferPointer(loop::BufferId buffer) {
  if (buffer >= buffers_.size()) {
    Fail(absl::InternalError(absl::StrCat("b", buffer, " is out of range")));
    return llvm::PoisonValue::get(b_.getPtrTy());
  }
  if (buffers_[buffer] != nullptr) return buffers_[buffer];
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
  if (kernel_.buffers[buffer].space != loop::Space::kGlobal) return buffers_[buffer] = Scratch(buffer);
  uint64_t parameter = 0;
  for (loop::BufferId i = 0; i < buffer; ++i) parameter += kernel_.buffers[i].space == loop::Space::kGlobal;
  if (is_simt_) return buffers_[buffer] = function_->getArg(static_cast<unsigned>(parameter));
  llvm::Value* slot = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function_->getArg(0), parameter);
  return buffers_[buffer] = b_.CreateAlignedLoad(b_.getPtrTy(), slot, llvm::Align(8));
}

llvm::Value* KernelEmitter::Pointer(loop::BufferId buffer, const IndexPattern& pattern) {
  llvm::Value* base = BufferPointer(buffer);
  llvm::Type* element = MemoryType(b_.getContext(), kernel_.buffers[buffer].dtype);
  return b_.CreateGEP(element, base, pattern.start);
}

KernelEmitter::Guard KernelEmitter::GuardOf(Sym index, loop::ValueId mask) {
  Guard guard{nullptr, index_.vector_axis().mask};
  if (mask != loop::kNone) {
    const LoopValue& value = ValueOf(mask);
    if (value.varying) {
      guard.lanes = AndMasks(b_, guard.lanes, value.value);
    } else {
      guard.uniform = value.value;
    }
  }
  // A bad index becomes 0, which an empty buffer does not have either.
  for (const Var var : syms_.Variables(index)) {
    if (var.kind != VarKind::kValue) continue;
    const std::optional<Sym> extent = syms_.Extent(var);
    if (!extent || syms_.RangeOf(*extent).min >= 1) continue;
    llvm::Value* not_empty = b_.CreateICmpSGT(index_.Uniform(*extent), b_.getInt64(0));
    guard.uniform = AndMasks(b_, guard.uniform, not_empty);
  }
  return guard;
}

// Of the lanes' first element in memory.
llvm::Align KernelEmitter::AlignOf(DType type, const IndexPattern& pattern) const {
  const auto element = static_cast<uint64_t>(ByteSize(type));
  if (!context_.target.aligned_buffers || !pattern.starts_on_vector) return llvm::Align(element);
  return llvm::Align(std::min(kMaxAccess, element * index_.vector_axis().lanes));
}

llvm::Value* KernelEmitter::LoadLanes(const loop::Let& let, const IndexPattern& pattern, llvm::Value* pointer,
                                      llvm::Value* mask) {
  if (mask != nullptr && !HasMaskedAccess(pattern, let.type)) {
    if (!is_simt_ || !pattern.starts_on_vector) return LoadLaneByLane(let, pattern, pointer, mask);
    // Masks change mostly where vectors do: all lanes or none.
    llvm::Value* all = b_.CreateAndReduce(mask);
    llvm::Value* some = b_.CreateAnd(b_.CreateOrReduce(mask), b_.CreateNot(all));
    llvm::Value* none =
        llvm::Constant::getNullValue(WithLanes(RegisterType(b_.getContext(), let.type), index_.vector_axis().lanes));
    const Values lanes =
        EmitIf(b_, some, {none}, [&]() -> Values { return {LoadLaneByLane(let, pattern, pointer, mask)}; });
    return EmitIf(b_, all, lanes, [&]() -> Values { return {LoadLanes(let, pattern, pointer, nullptr)}; })[0];
  }
  llvm::Type* element = MemoryType(b_.getContext(), let.type);
  llvm::Type* vector = WithLanes(element, index_.vector_axis().lanes);
  const llvm::Align align = AlignOf(let.type, pattern);
  llvm::Constant* zero = llvm::Constant::getNullValue(vector);
  llvm::Instruction* load = nullptr;
  if (pattern.kind == IndexPattern::Kind::kGather) {
    load = b_.CreateMaskedGather(vector, b_.CreateGEP(element, pointer, pattern.offsets), align, mask, zero);
  } else if (mask != nullptr) {
    load = b_.CreateMaskedLoad(vector, pointer, align, mask, zero);
  } else {
    load = b_.CreateAlignedLoad(vector, pointer, align);
  }
  alias_.TagLoad(let.buffer, load);
  return FromMemory(b_, let.type, load);
}

void KernelEmitter::EmitLoad(const loop::Let& let) {
  if (is_simt_ && kernel_.buffers[let.buffer].space == loop::Space::kRegister) return LoadOwn(let);
  Guard guard = GuardOf(let.index, let.mask);
  const IndexPattern pattern = index_.Pattern(let.index);
  llvm::Value* pointer = Pointer(let.buffer, pattern);
  const bool masked = let.mask != loop::kNone;
  const bool varying_mask = masked && ValueOf(let.mask).varying;
  const bool one_element = pattern.kind == IndexPattern::Kind::kUniform;
  // One element for all lanes: read if any lane wants it (at least one lane is active).
  if (one_element && varying_mask) guard.uniform = AndMasks(b_, guard.uniform, b_.CreateOrReduce(guard.lanes));
  const bool varying = !one_element || varying_mask || (masked && ValueOf(let.other).varying);

  llvm::Type* type = WithLanes(RegisterType(b_.getContext(), let.type), varying ? index_.vector_axis().lanes : 1);
  llvm::Value* other = llvm::Constant::getNullValue(type);
  if (masked) other = varying ? InLanes(let.other) : ValueOf(let.other).value;
  auto load = [&]() -> Values {
    if (!one_element) return {LoadLanes(let, pattern, pointer, guard.lanes)};
    llvm::Type* element = MemoryType(b_.getContext(), let.type);
    llvm::Instruction* scalar =
        b_.CreateAlignedLoad(element, pointer, llvm::Align(static_cast<uint64_t>(ByteSize(let.type))));
    alias_.TagLoad(let.buffer, scalar);
    llvm::Value* value = FromMemory(b_, let.type, scalar);
    return {varying ? Splat(b_, value, index_.vector_axis().lanes) : value};
  };
  llvm::Value* value = guard.uniform == nullptr ? load()[0] : EmitIf(b_, guard.uniform, {other}, load)[0];
  if (varying_mask) value = b_.CreateSelect(ValueOf(let.mask).value, value, other);
  Bind(let.result, let.type, value);
}

void KernelEmitter::StoreLanes(const loop::Store& store, const IndexPattern& pattern, llvm::Value* pointer,
                               llvm::Value* mask) {
  const DType type = kernel_.buffers[store.buffer].dtype;
  const llvm::Align align = AlignOf(type, pattern);
  llvm::Value* value = ToMemory(b_, type, InLanes(store.value));
  if (mask != nullptr && !HasMaskedAccess(pattern, type)) {
    return StoreLaneByLane(store, pattern, pointer, value, mask);
  }
  llvm::Instruction* instruction = nullptr;
  if (pattern.kind != IndexPattern::Kind::kContiguous) {
    // Lanes are written in order: at one place the last active lane stays.
    llvm::Type* element = MemoryType(b_.getContext(), type);
    llvm::Value* pointers = pattern.kind == IndexPattern::Kind::kGather
                                ? b_.CreateGEP(element, pointer, pattern.offsets)
                                : Splat(b_, pointer, index_.vector_axis().lanes);
    instruction = b_.CreateMaskedScatter(value, pointers, align, mask);
  } else if (mask != nullptr) {
    instruction = b_.CreateMaskedStore(value, pointer, align, mask);
  } else if (store.streaming && can_stream_ && index_.vector_axis().lanes * align.value() % kLine == 0) {
    return StreamLanes(store.buffer, value, pointer);
  } else {
    instruction = b_.CreateAlignedStore(value, pointer, align);
  }
  alias_.TagStore(store.buffer, instruction);
}

void KernelEmitter::EmitStore(const loop::Store& store) {
  if (ValueOf(store.value).value == nullptr) {
    return Fail(absl::InternalError(absl::StrCat("v", store.value, " is not defined here")));
  }
  if (is_simt_ && kernel_.buffers[store.buffer].space == loop::Space::kRegister) return StoreOwn(store);
  Guard guard = GuardOf(store.index, store.mask);
  if (is_simt_ && !in_threads_)  // one for all
    guard.uniform = AndMasks(b_, guard.uniform, b_.CreateICmpEQ(ThreadId(), b_.getInt64(0)));
  const IndexPattern pattern = index_.Pattern(store.index);
  llvm::Value* pointer = Pointer(store.buffer, pattern);
  const bool varying_mask = store.mask != loop::kNone && ValueOf(store.mask).varying;
  const bool one_element =
      pattern.kind == IndexPattern::Kind::kUniform && !ValueOf(store.value).varying && !varying_mask;
  auto write = [&]() -> Values {
    if (!one_element) {
      StoreLanes(store, pattern, pointer, guard.lanes);
      return {};
    }
    const DType type = kernel_.buffers[store.buffer].dtype;
    llvm::Instruction* instruction = b_.CreateAlignedStore(ToMemory(b_, type, ValueOf(store.value).value), pointer,
                                                           llvm::Align(static_cast<uint64_t>(ByteSize(type))));
    alias_.TagStore(store.buffer, instruction);
    return {};
  };
  if (guard.uniform == nullptr) {
    write();
  } else {
    EmitIf(b_, guard.uniform, {}, write);
  }
}

// Whole lines, if they are lines of memory too.
void KernelEmitter::StreamLanes(loop::BufferId buffer, llvm::Value* value, llvm::Value* pointer) {
  const auto write = [&](uint64_t align) {
    llvm::StoreInst* store = b_.CreateAlignedStore(value, pointer, llvm::Align(align));
    alias_.TagStore(buffer, store);
    return store;
  };
  llvm::Value* address = b_.CreatePtrToInt(pointer, b_.getInt64Ty());
  llvm::Value* is_line = b_.CreateICmpEQ(b_.CreateAnd(address, kLine - 1), b_.getInt64(0));
  EmitIf(b_, is_line, {}, [&]() -> Values {
    llvm::Metadata* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
    llvm::StoreInst* store = write(kLine);
    store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), one));
    store->setVolatile(true);  // or the two become one again
    return {};
  });
  EmitIf(b_, b_.CreateNot(is_line), {}, [&]() -> Values {
    write(static_cast<uint64_t>(ByteSize(kernel_.buffers[buffer].dtype)));
    return {};
  });
  streamed_ = true;
}

// Every line that the lanes' elements lie in; where they are scattered, of lane 0 alone.
void KernelEmitter::EmitPrefetch(const loop::Prefetch& prefetch) {
  if (is_simt_) return;  // other blocks run meanwhile
  const IndexPattern pattern = index_.Pattern(prefetch.index);
  llvm::Value* pointer = Pointer(prefetch.buffer, pattern);
  const bool contiguous = pattern.kind == IndexPattern::Kind::kContiguous;
  const auto element = static_cast<unsigned>(ByteSize(kernel_.buffers[prefetch.buffer].dtype));
  const unsigned bytes = element * (contiguous ? index_.vector_axis().lanes : 1);
  for (unsigned offset = 0; offset < bytes; offset += kLine) {
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {pointer->getType()},
                       {b_.CreatePtrAdd(pointer, b_.getInt64(offset)), /*write=*/b_.getInt32(0),
                        /*locality=*/b_.getInt32(3), /*data=*/b_.getInt32(1)});
  }
}

// On a GPU a device-side assertion, as eager's kernels have, by CUDA's own system call (CUDA C++ Programming Guide,
// "Assertion"): "kiln:CHECK: KERNEL: block: …, thread: … Assertion `index out of range in self` failed."
void KernelEmitter::EmitBadIndex(int64_t check) {
  if (!is_simt_) {
    b_.CreateAtomicCmpXchg(function_->getArg(kError), b_.getInt64(0), b_.getInt64(1 + check), llvm::Align(8),
                           llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
    return;
  }
  llvm::Module& module = *function_->getParent();
  llvm::Type* pointer = b_.getPtrTy();
  const llvm::FunctionCallee fail = module.getOrInsertFunction("__assertfail", b_.getVoidTy(), pointer, pointer,
                                                               b_.getInt32Ty(), pointer, b_.getInt64Ty());
  const auto text = [&](llvm::StringRef name, llvm::StringRef value) {
    llvm::GlobalVariable* global = module.getNamedGlobal(name);
    if (global == nullptr) {
      llvm::Constant* data = llvm::ConstantDataArray::getString(module.getContext(), value);
      global =
          new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                   data, name, nullptr, llvm::GlobalValue::NotThreadLocal, kGlobalSpace);
    }
    return b_.CreateAddrSpaceCast(global, pointer);
  };
  b_.CreateCall(
      fail, {text("assert_message", "index out of range in self"), text("assert_file", "kiln"),
             b_.getInt32(static_cast<uint32_t>(check)), text("assert_function", function_->getName()), b_.getInt64(1)});
}

void KernelEmitter::EmitCheckIndex(const loop::Let& let) {
  const LoopValue& checked = ValueOf(let.args.empty() ? loop::kNone : let.args[0]);
  if (checked.value == nullptr || checked.type != DType::kInt64 || index_.IsVarying(let.index)) {
    return Fail(absl::InternalError(absl::StrCat("operands of check_index v", let.result)));
  }
  llvm::Value* extent = Splat(b_, index_.Uniform(let.index), LanesOf(checked.value));
  llvm::Value* bad = b_.CreateICmpUGE(checked.value, extent);  // negative ones are large
  llvm::Value* any = bad;
  if (checked.varying) any = b_.CreateOrReduce(AndMasks(b_, bad, index_.vector_axis().mask));
  EmitIf(b_, any, {}, [&]() -> Values {
    EmitBadIndex(check_numbers_[let.result - kernel_.first_value]);
    return {};
  });
  llvm::Value* zero = llvm::Constant::getNullValue(checked.value->getType());
  Bind(let.result, let.type, b_.CreateSelect(bad, zero, checked.value));
}

}  // namespace kiln::codegen
