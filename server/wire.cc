#include "server/wire.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace kiln {

v1::Digest ToProto(const Digest& digest) {
  v1::Digest out;
  out.set_sha256(digest.hash.data(), digest.hash.size());
  out.set_size(digest.size);
  return out;
}

absl::StatusOr<Digest> FromProto(const v1::Digest& digest, std::string_view field) {
  Digest out;
  if (digest.sha256().size() != out.hash.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(field), ".sha256: want 32 bytes, have ", digest.sha256().size()));
  }
  std::copy(digest.sha256().begin(), digest.sha256().end(), out.hash.begin());
  out.size = digest.size();
  return out;
}

v1::KeyPart ToProto(const KeyPart& part) {
  v1::KeyPart out;
  out.set_name(part.name);
  out.set_sha256(part.value.hash.data(), part.value.hash.size());
  out.set_value(part.printable);
  return out;
}

std::string SerializeDeterministic(const google::protobuf::MessageLite& message) {
  std::string out;
  out.reserve(message.ByteSizeLong());
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return out;
}

std::string OneLine(std::string_view text, size_t limit) {
  std::string out(text.substr(0, limit));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  if (text.size() > limit) out += "...";
  return out;
}

}  // namespace kiln
