#include "compiler/import/canonical.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace kiln {
namespace {

template <typename Message>
std::string Bytes(Message message) {
  message.DiscardUnknownFields();
  std::string out;
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return out;
}

}  // namespace

std::string CanonicalBytes(const v1::Graph& graph) { return Bytes(graph); }
std::string CanonicalBytes(const v1::GuardSpec& guards) { return Bytes(guards); }

}  // namespace kiln
