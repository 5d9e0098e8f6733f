#include "server/config.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace kiln {
namespace {

class Errors final : public google::protobuf::io::ErrorCollector {
 public:
  explicit Errors(std::string_view name) : name_(name) {}

  // Lines count from 0. The column is that of the token after the one at fault: of no use.
  void AddError(int line, google::protobuf::io::ColumnNumber, const std::string& message) override {
    lines_.push_back(absl::StrCat(name_, ":", line + 1, ": ", message));
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  std::string Text() const { return absl::StrJoin(lines_, "\n"); }

 private:
  const std::string name_;
  std::vector<std::string> lines_;
};

absl::Status Bad(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("config: ", field, ": ", what));
}

template <typename T>
T OrDefault(T value, T otherwise) {
  return value == T() ? otherwise : value;
}

void FillDefaults(v1::Config* c) {
  c->set_drain_seconds(OrDefault(c->drain_seconds(), 30.0));
  c->set_socket_mode(OrDefault(c->socket_mode(), 0600u));
  v1::Config::Workers* w = c->mutable_workers();
  w->set_count(OrDefault(w->count(), std::max(1u, std::thread::hardware_concurrency())));
  w->set_job_seconds(OrDefault(w->job_seconds(), 120.0));
  w->set_memory_mib(OrDefault<uint64_t>(w->memory_mib(), 4096));
  w->set_jobs_per_worker(OrDefault(w->jobs_per_worker(), 10000u));
  v1::Config::Cache* cache = c->mutable_cache();
  cache->set_byte_cap(OrDefault<uint64_t>(cache->byte_cap(), 10ull << 30));
  cache->set_negative_ttl_seconds(OrDefault(cache->negative_ttl_seconds(), 600.0));
  cache->set_memory_bytes(OrDefault<uint64_t>(cache->memory_bytes(), 64 << 20));
  v1::Config::Limits* l = c->mutable_limits();
  l->set_message_bytes(OrDefault<uint64_t>(l->message_bytes(), 64 << 20));
  l->set_nodes(OrDefault(l->nodes(), 200000u));
  l->set_symbols(OrDefault(l->symbols(), 10000u));
  l->set_queue(OrDefault(l->queue(), 256u));
  l->set_compile_seconds(OrDefault(l->compile_seconds(), 600.0));
  l->set_memory_bytes(OrDefault<uint64_t>(l->memory_bytes(), 2ull << 30));
  if (c->logging().level().empty()) c->mutable_logging()->set_level("info");
}

absl::Status CheckSeconds(const std::string& field, double value) {
  // The upper bound keeps every sum of times far from overflow.
  if (std::isfinite(value) && value >= 0 && value <= 1e9) return absl::OkStatus();
  return Bad(field, absl::StrCat("want seconds between 0 and 1e9, have ", value));
}

absl::Status CheckTimes(const v1::Config& c) {
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, double>>{
           {"idle_exit_seconds", c.idle_exit_seconds()},
           {"drain_seconds", c.drain_seconds()},
           {"workers.job_seconds", c.workers().job_seconds()},
           {"cache.negative_ttl_seconds", c.cache().negative_ttl_seconds()},
           {"limits.compile_seconds", c.limits().compile_seconds()}}) {
    if (absl::Status s = CheckSeconds(field, value); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckAuth(const v1::Config::Auth& auth) {
  static const auto* const kRoles = new std::set<std::string>{"reader", "writer", "admin"};
  for (int i = 0; i < auth.roles_size(); ++i) {
    const std::string field = absl::StrCat("auth.roles[", i, "]");
    const std::string& principal = auth.roles(i).principal();
    if (principal != "*" && principal != "default" && principal.rfind("uid:", 0) != 0) {
      return Bad(absl::StrCat(field, ".principal"),
                 absl::StrCat("'", principal, "' is none of \"uid:N\", \"default\", \"*\""));
    }
    for (const std::string& role : auth.roles(i).roles()) {
      if (!kRoles->contains(role)) {
        return Bad(absl::StrCat(field, ".roles"),
                   absl::StrCat("'", role, "' is none of ", absl::StrJoin(*kRoles, ", ")));
      }
    }
  }
  return absl::OkStatus();
}

// gRPC takes a port modulo 65536.
absl::Status CheckAddress(const std::string& field, const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return absl::OkStatus();
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon != std::string::npos && absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 && port <= 65535) {
    return absl::OkStatus();
  }
  return Bad(field, absl::StrCat("'", address, "': want unix:/path, or host:port with a port of at most 65535"));
}

absl::Status CheckRanges(const v1::Config& c) {
  for (int i = 0; i < c.listen_size(); ++i) {
    if (absl::Status s = CheckAddress(absl::StrCat("listen[", i, "]"), c.listen(i)); !s.ok()) return s;
  }
  if (c.workers().count() > 1024) return Bad("workers.count", "at most 1024");
  if (c.workers().memory_mib() < 64) return Bad("workers.memory_mib", "at least 64");
  // protobuf's own bound on a message is 2 GiB.
  if (c.limits().message_bytes() > 1 << 30) return Bad("limits.message_bytes", "at most 1 GiB");
  if (c.socket_mode() > 0777) return Bad("socket_mode", "want permissions, as 0600");
  static const auto* const kLevels = new std::set<std::string>{"trace", "debug", "info", "warn", "error"};
  if (!kLevels->contains(c.logging().level())) {
    return Bad("logging.level", absl::StrCat("'", c.logging().level(), "' is none of ", absl::StrJoin(*kLevels, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Config> ParseConfig(const std::string& text, std::string_view name) {
  Errors errors(name);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  v1::Config config;
  if (!parser.ParseFromString(text, &config)) return absl::InvalidArgumentError(errors.Text());
  return config;
}

absl::StatusOr<v1::Config> LoadConfig(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return ParseConfig(std::string(std::istreambuf_iterator<char>(in), {}), path);
}

absl::Status CompleteConfig(v1::Config* config) {
  FillDefaults(config);
  if (absl::Status s = CheckTimes(*config); !s.ok()) return s;
  if (absl::Status s = CheckRanges(*config); !s.ok()) return s;
  return CheckAuth(config->auth());
}

}  // namespace kiln
