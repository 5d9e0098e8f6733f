#include "client/cli/json.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  const std::string shortest = absl::StrFormat("%.15g", value);
  return std::stod(shortest) == value ? shortest : absl::StrFormat("%.17g", value);
}

// The value of a singular field (index -1) or of one item of a repeated one. Messages of this protocol nest a few
// levels.
std::string Value(const Message& m, const FieldDescriptor* f, int index) {
  const Reflection* r = m.GetReflection();
  const bool item = index >= 0;
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return (item ? r->GetRepeatedBool(m, f, index) : r->GetBool(m, f)) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(item ? r->GetRepeatedInt32(m, f, index) : r->GetInt32(m, f));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(item ? r->GetRepeatedInt64(m, f, index) : r->GetInt64(m, f));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(item ? r->GetRepeatedUInt32(m, f, index) : r->GetUInt32(m, f));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(item ? r->GetRepeatedUInt64(m, f, index) : r->GetUInt64(m, f));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(item ? r->GetRepeatedFloat(m, f, index) : r->GetFloat(m, f));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(item ? r->GetRepeatedDouble(m, f, index) : r->GetDouble(m, f));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = item ? r->GetRepeatedEnumValue(m, f, index) : r->GetEnumValue(m, f);
      const auto* known = f->enum_type()->FindValueByNumber(number);
      return known == nullptr ? absl::StrCat(number) : JsonString(known->name());
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string value = item ? r->GetRepeatedString(m, f, index) : r->GetString(m, f);
      return JsonString(f->type() == FieldDescriptor::TYPE_BYTES ? absl::BytesToHexString(value) : value);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(item ? r->GetRepeatedMessage(m, f, index) : r->GetMessage(m, f));
  }
  return "null";
}

std::string List(const Message& m, const FieldDescriptor* f) {
  std::string out = "[";
  for (int i = 0; i < m.GetReflection()->FieldSize(m, f); ++i) absl::StrAppend(&out, i == 0 ? "" : ",", Value(m, f, i));
  return out + "]";
}

}  // namespace

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (static_cast<unsigned char>(c) < ' ') {
      out += absl::StrFormat("\\u%04x", static_cast<int>(c));
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string ToJson(const Message& message) {
  const auto* descriptor = message.GetDescriptor();
  std::string out = "{";
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* f = descriptor->field(i);
    const bool optional = f->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE || f->containing_oneof() != nullptr;
    if (!f->is_repeated() && optional && !message.GetReflection()->HasField(message, f)) continue;
    absl::StrAppend(&out, out.size() == 1 ? "" : ",", JsonString(f->name()), ":",
                    f->is_repeated() ? List(message, f) : Value(message, f, -1));
  }
  return out + "}";
}

}  // namespace kiln
