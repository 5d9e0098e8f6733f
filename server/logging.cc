#include "server/logging.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace kiln {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%f %^%-5l%$ [%n] %v";
constexpr char kDaemonName[] = "-";
constexpr size_t kMaxFileBytes = 10 << 20;
constexpr size_t kOldFiles = 2;
constexpr size_t kMaxRequestId = 64;

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < ' ') {
      out += absl::StrFormat("\\u%04x", static_cast<int>(c));
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string_view View(spdlog::string_view_t text) { return {text.data(), text.size()}; }

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& msg, spdlog::memory_buf_t& dest) override {
    const std::string line = absl::StrCat(
        "{\"time\":", JsonString(absl::FormatTime(absl::FromChrono(msg.time), absl::UTCTimeZone())),
        ",\"level\":", JsonString(View(spdlog::level::to_string_view(msg.level))),
        ",\"request\":", JsonString(View(msg.logger_name)), ",\"message\":", JsonString(View(msg.payload)), "}\n");
    dest.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

bool IsIdCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("._:/-").find(c) != std::string_view::npos;
}

}  // namespace

absl::StatusOr<Logger> MakeLogger(const v1::Config::Logging& config) {
  spdlog::sink_ptr sink;
  try {
    if (config.file().empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(config.file(), kMaxFileBytes, kOldFiles);
    }
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("logging.file: ", e.what()));
  }
  auto logger = std::make_shared<spdlog::logger>(kDaemonName, std::move(sink));
  if (config.json()) {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_pattern(kTextPattern, spdlog::pattern_time_type::utc);
  }
  logger->set_level(spdlog::level::from_str(config.level().empty() ? "info" : config.level()));
  logger->flush_on(spdlog::level::info);
  return logger;
}

Logger ForRequest(const Logger& base, const std::string& request_id) { return base->clone(request_id); }

Logger NullLogger() {
  return std::make_shared<spdlog::logger>(kDaemonName, std::make_shared<spdlog::sinks::null_sink_mt>());
}

std::string RequestId(const std::string& asked) {
  if (!asked.empty() && asked.size() <= kMaxRequestId && std::all_of(asked.begin(), asked.end(), IsIdCharacter)) {
    return asked;
  }
  static std::atomic<uint64_t> last = 0;
  return absl::StrCat("r", getpid(), "-", ++last);
}

}  // namespace kiln
