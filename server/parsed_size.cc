#include "server/parsed_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
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
// What the type does not have is kept: a list for each message and group with such fields, which grows by doubling.
constexpr uint64_t kUnknown = 2 * sizeof(google::protobuf::UnknownField);
constexpr uint64_t kUnknownList = 2 * sizeof(google::protobuf::UnknownFieldSet) + 2 * kAllocation;

class Walk {
 public:
  Walk(std::string_view wire, uint64_t bound)
      : in_(reinterpret_cast<const uint8_t*>(wire.data()), static_cast<int>(wire.size())), bound_(bound) {}

  // False: malformed, or over the bound.
  bool Message(const Descriptor& type, int depth) {
    if (depth > kMaxDepth) return false;
    if (!Add(SizeOf(type))) return false;
    bool has_unknown = false;
    while (const uint32_t tag = in_.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (!IsKnown(field, WireFormatLite::GetTagWireType(tag))) {
        if (!Add(has_unknown ? 0 : kUnknownList) || !Unknown(tag, depth)) return false;
        has_unknown = true;
      } else if (!Field(tag, *field, depth)) {
        return false;
      }
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

  // Repeated numbers come packed or not, whatever the type says.
  static bool IsKnown(const FieldDescriptor* field, WireFormatLite::WireType wire) {
    if (field == nullptr) return false;
    const auto type = static_cast<WireFormatLite::FieldType>(field->type());
    const bool packed = field->is_packable() && wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    return packed || wire == WireFormatLite::WireTypeForFieldType(type);
  }

  bool Field(uint32_t tag, const FieldDescriptor& field, int depth) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return WireFormatLite::SkipField(&in_, tag) && Add(kNumber);
    }
    int length = 0;
    if (!Length(length)) return false;
    if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      const auto limit = in_.PushLimit(length);
      if (!Add(kPointer) || !Message(*field.message_type(), depth + 1)) return false;
      in_.PopLimit(limit);
      return true;
    }
    // Numbers take a byte each, at least.
    const uint64_t bytes = static_cast<uint64_t>(length) * (field.is_packable() ? kNumber : 1);
    return Add(kString + bytes) && in_.Skip(length);
  }

  bool Unknown(uint32_t tag, int depth) {
    if (!Add(kUnknown)) return false;
    int length = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_START_GROUP:
        return UnknownGroup(WireFormatLite::GetTagFieldNumber(tag), depth + 1);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return Length(length) && Add(kString + static_cast<uint64_t>(length)) && in_.Skip(length);
      default:
        return WireFormatLite::SkipField(&in_, tag);
    }
  }

  bool UnknownGroup(int number, int depth) {
    if (depth > kMaxDepth || !Add(kUnknownList)) return false;
    while (const uint32_t tag = in_.ReadTag()) {
      if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_END_GROUP) {
        return WireFormatLite::GetTagFieldNumber(tag) == number;
      }
      if (!Unknown(tag, depth)) return false;
    }
    return false;
  }

  bool Length(int& length) { return in_.ReadVarintSizeAsInt(&length) && length <= in_.BytesUntilLimit(); }

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
