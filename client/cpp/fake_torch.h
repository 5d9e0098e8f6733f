// A torch of plain memory behind the C shims, for tests that need no torch: tensors, views and copies are real, and
// checked harder than torch checks them; operators are a handful. What a handle points to begins as in torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cpp/torch_api.h"

namespace kiln {

// The same for the whole process. Its dispatcher knows aten::cat, aten::_lazy_clone and, for tests,
// test::transposed (gives other strides than its meta function would say), test::none and test::fails.
const TorchApi& FakeTorch();

// Whether the dispatcher's operator `op` ("aten.cat.default") has this schema.
bool FakeHasOperator(const std::string& op, const std::string& schema);

// Live tensor handles: 0 once everything has been released.
int64_t FakeTensorCount();

// A new contiguous f32 tensor.
OwnedTensor FakeTensor(std::vector<int64_t> sizes, std::vector<float> values);
// A new f32 tensor; `values` are in the order of memory.
OwnedTensor FakeStrided(std::vector<int64_t> sizes, std::vector<int64_t> strides, std::vector<float> values);
// Likewise, on CUDA device number `device`, whose memory is the host's; and the current stream there.
OwnedTensor FakeOnGpu(int32_t device, std::vector<int64_t> sizes, std::vector<float> values);
void* FakeStream(int32_t device);
// Elements in row-major order, whatever the strides.
std::vector<float> FakeValues(TensorHandle tensor);

// What users do to storages: another size, other memory, weak references (`change` more or fewer), a Python object that
// has a reference.
void FakeResize(TensorHandle tensor, size_t bytes);
void FakeRehome(TensorHandle tensor);
void FakeWeakReference(TensorHandle tensor, int change);
void FakePythonObject(TensorHandle tensor, bool has);

}  // namespace kiln
