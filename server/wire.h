// Between the messages of proto/ and the values of cache/.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cache/digest.h"
#include "cache/key.h"
#include "google/protobuf/message_lite.h"
#include "proto/artifact.pb.h"

namespace kiln {

v1::Digest ToProto(const Digest& digest);

// InvalidArgument, naming `field`, unless there are 32 bytes.
absl::StatusOr<Digest> FromProto(const v1::Digest& digest, std::string_view field);

v1::KeyPart ToProto(const KeyPart& part);

// The same message, the same bytes, in every process of this build.
std::string SerializeDeterministic(const google::protobuf::MessageLite& message);

// Untrusted text made fit for a log line: one line, printable, of at most `limit` bytes.
std::string OneLine(std::string_view text, size_t limit = 2000);

}  // namespace kiln
