#include "server/parsed_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxDepth = 100;  // protobuf's own
constexpr uint64_t kPointer = sizeof(void*);
constexpr uint64_t kString = 2 * sizeof(std::string);  // with the allocator's share
constexpr uint64_t kNumber = 2 * sizeof(uint64_t);     // repeated fields grow by doubling
constexpr uint64_t kAllocation = 16;                   // the allocator's share of a message

class Walk {
 public:
  Walk(std::string_view wire, uint64_t bound)
      : in_(reinterpret_cast<const uint8_t*>(wire.data()), static_cast<int>(wire.size())), bound_(bound) {}

  // False: malformed, or over the bound.
  bool Message(const Descriptor& type, int depth) {
    if (depth > kMaxDepth) return false;
    if (!Add(SizeOf(type))) return false;
    while (const uint32_t tag = in_.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (!Field(tag, field, depth)) return false;
    }
    return in_.ConsumedEntireMessage();
  }

  uint64_t size() const { return size_; }
  bool over() const { return size_ > bound_; }

 private:
  bool Add(uint64_t bytes) {
    size_ += bytes;
    return !over();
  }

  bool Field(uint32_t tag, const FieldDescriptor* field, int depth) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return WireFormatLite::SkipField(&in_, tag) && Add(kNumber);
    }
    int length = 0;
    if (!in_.ReadVarintSizeAsInt(&length) || length > in_.BytesUntilLimit()) return false;
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      const auto limit = in_.PushLimit(length);
      if (!Add(kPointer) || !Message(*field->message_type(), depth + 1)) return false;
      in_.PopLimit(limit);
      return true;
    }
    const bool packed = field != nullptr && field->is_packable();  // a byte each, at least
    const uint64_t bytes = static_cast<uint64_t>(length) * (packed ? kNumber : 1);
    return Add(kString + bytes) && in_.Skip(length);
  }

  uint64_t SizeOf(const Descriptor& type) {
    const auto [it, added] = sizes_.try_emplace(&type);
    if (added) {
      const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
      it->second = kAllocation + (prototype == nullptr ? 0 : prototype->SpaceUsedLong());
    }
    return it->second;
  }

  CodedInputStream in_;
  const uint64_t bound_;
  uint64_t size_ = 0;
  absl::flat_hash_map<const Descriptor*, uint64_t> sizes_;
};

}  // namespace

absl::StatusOr<uint64_t> ParsedSize(std::string_view wire, const Descriptor& type, uint64_t bound) {
  Walk walk(wire, bound);
  if (walk.Message(type, 0)) return walk.size();
  if (walk.over()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("request: its ", wire.size(), " bytes would take more than ", bound, " in memory"));
  }
  return absl::InvalidArgumentError(absl::StrCat("request: not a ", type.full_name()));
}

}  // namespace kiln
