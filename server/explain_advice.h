// What to do about a difference, one line a kind.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

inline constexpr std::string_view kAdviceProgram = "another program, or another branch of it";
inline constexpr std::string_view kAdviceGraphStatesSizes =
    "the graph states sizes and types too: it may differ by what the guards say alone; else it is another program, or "
    "another branch of it";
inline constexpr std::string_view kAdviceConstants = "the same operations, over other constants or with other outputs";
inline constexpr std::string_view kAdviceNumber =
    "the program has another number here: where it is a size, mark that dimension dynamic; else pass it as a tensor";
inline constexpr std::string_view kAdviceInt = "an int argument that hangs together with the sizes in another way";
inline constexpr std::string_view kAdviceDtype = "cast the input, or run in one precision: each dtype compiles apart";
inline constexpr std::string_view kAdviceDevice = "each kind of device compiles apart: prewarm for each";
inline constexpr std::string_view kAdviceRank = "call with tensors of one number of dimensions: each compiles apart";
inline constexpr std::string_view kAdviceParameter =
    "a parameter of another size is another model, or another configuration of it";
inline constexpr std::string_view kAdviceRelation =
    "other sizes are equal, or derived from each other: mark each that varies on its own dynamic "
    "(torch._dynamo.mark_dynamic)";
inline constexpr std::string_view kAdviceZeroOne =
    "torch compiles sizes 0 and 1 apart, even of a dynamic dimension: avoid them (drop or pad the last batch)";
inline constexpr std::string_view kAdviceRange =
    "the code, or mark_dynamic(min=, max=), bounds the size otherwise: a branch on a size makes a graph for each side";
inline constexpr std::string_view kAdviceStrides =
    "call with one memory layout: x.contiguous(), or x.to(memory_format=…) everywhere";
inline constexpr std::string_view kAdviceRequiresGrad =
    "set requires_grad alike: freeze before the first call, detach() inputs that need no gradient";
inline constexpr std::string_view kAdviceStatic =
    "a parameter or buffer in one, a plain tensor in the other: register it as a buffer, or pass it, in both";
inline constexpr std::string_view kAdviceAlias =
    "inputs that share memory compile apart: clone() one, or share them in every call";
inline constexpr std::string_view kAdviceLeaf = "the result of a differentiable operation in one only: detach() it";
inline constexpr std::string_view kAdviceView =
    "a part of another tensor in one only, or another part: clone() it, or slice alike in every call";
inline constexpr std::string_view kAdviceInferenceTensor =
    "made under torch.inference_mode() in one only: make it outside, or always inside";
inline constexpr std::string_view kAdvicePredicates =
    "a variant for sizes of which these conditions hold; the server takes the most specific that fits";
inline constexpr std::string_view kAdviceNamespace =
    "look-ups are kept apart by principal: run the jobs as one user, or prewarm for each";
inline constexpr std::string_view kAdviceRequest =
    "no named part differs: the requests do in their bytes alone (size classes, an option spelt out); the compiled "
    "code is shared";

std::string AdviceForSize(int dim);     // one number, then another
std::string AdviceForDynamic(int dim);  // a number on one side only
std::string AdviceForGlobal(const std::string& name);
std::string AdviceForPart(const std::string& name);

}  // namespace kiln
