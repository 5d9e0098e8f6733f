#include "server/command_line.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "client/local/version.h"
#include "server/config.h"

namespace kiln {
namespace {

// Flags that were given; what was not leaves the file's word alone.
struct Flags {
  std::string config_file;
  std::vector<std::string> listen;
  std::optional<std::string> data_dir, metrics_listen, log_level, log_file;
  std::optional<uint32_t> workers;
  std::optional<double> job_seconds, idle_exit_seconds, drain_seconds;
  std::optional<uint64_t> byte_cap, worker_memory_mib;
  bool log_json = false;
  bool local = false, foreground = false, local_address = false, print_build = false;
  std::string debug_crash_at;
};

void AddConfigFlags(CLI::App& app, Flags& f) {
  app.option_defaults()->take_last();
  app.add_option("--config", f.config_file, "text proto; see proto/config.proto")->check(CLI::ExistingFile);
  app.add_option("--data-dir", f.data_dir, "where the cache lives");
  app.add_option("--workers", f.workers, "worker processes; 0: one a processor");
  app.add_option("--worker-memory-mib", f.worker_memory_mib, "address space of a worker");
  app.add_option("--job-seconds", f.job_seconds, "a worker's job is killed after so long");
  app.add_option("--byte-cap", f.byte_cap, "bytes of the cache");
  app.add_option("--metrics-listen", f.metrics_listen, "host:port for Prometheus");
  app.add_option("--idle-exit-seconds", f.idle_exit_seconds, "leave after so long without a request; 0: stay");
  app.add_option("--drain-seconds", f.drain_seconds, "how long SIGTERM waits for compiles");
  app.add_option("--log-level", f.log_level, "trace, debug, info, warn or error");
  app.add_option("--log-file", f.log_file, "instead of stderr");
  app.add_flag("--log-json", f.log_json, "one JSON object a line");
  app.option_defaults()->take_all();
  app.add_option("--listen", f.listen, "unix:/path or host:port (port 0: any); may be given several times");
  app.option_defaults()->take_last();
}

void AddModeFlags(CLI::App& app, Flags& f) {
  CLI::Option* local =
      app.add_flag("--local", f.local, "start this user's own daemon unless it runs; print its address");
  app.add_flag("--foreground", f.foreground, "with --local: be the daemon, do not detach")->needs(local);
  app.add_flag("--local-address", f.local_address, "print the address of this user's own daemon; start nothing");
  app.add_flag("--print-build", f.print_build, "print the compiler build");
  app.add_option("--debug-crash-at", f.debug_crash_at, "exit at a step of a publication; for tests")->group("");
}

void Override(const Flags& f, v1::Config* c) {
  if (!f.listen.empty()) *c->mutable_listen() = {f.listen.begin(), f.listen.end()};
  if (f.data_dir) c->set_data_dir(*f.data_dir);
  if (f.metrics_listen) c->set_metrics_listen(*f.metrics_listen);
  if (f.workers) c->mutable_workers()->set_count(*f.workers);
  if (f.worker_memory_mib) c->mutable_workers()->set_memory_mib(*f.worker_memory_mib);
  if (f.job_seconds) c->mutable_workers()->set_job_seconds(*f.job_seconds);
  if (f.byte_cap) c->mutable_cache()->set_byte_cap(*f.byte_cap);
  if (f.idle_exit_seconds) c->set_idle_exit_seconds(*f.idle_exit_seconds);
  if (f.drain_seconds) c->set_drain_seconds(*f.drain_seconds);
  if (f.log_level) c->mutable_logging()->set_level(*f.log_level);
  if (f.log_file) c->mutable_logging()->set_file(*f.log_file);
  if (f.log_json) c->mutable_logging()->set_json(true);
}

CommandLine::Mode ModeOf(const Flags& f) {
  if (f.print_build) return CommandLine::Mode::kPrintBuild;
  if (f.local_address) return CommandLine::Mode::kLocalAddress;
  if (f.local) return f.foreground ? CommandLine::Mode::kLocalServe : CommandLine::Mode::kLocal;
  return CommandLine::Mode::kServe;
}

}  // namespace

std::variant<CommandLine, int> ParseCommandLine(int argc, const char* const* argv, std::ostream& out,
                                                std::ostream& err) {
  CLI::App app("kilnd: the compile server for torch.compile", "kilnd");
  Flags flags;
  app.set_version_flag("--version", std::string("kilnd ") + kVersion);
  AddConfigFlags(app, flags);
  AddModeFlags(app, flags);
  app.footer(
      "Flags override the configuration file. SIGTERM drains: compiles in flight are finished, new ones refused;\n"
      "a second one ends the daemon at once.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e, out, err) == 0 ? 0 : 2;
  }
  CommandLine line;
  line.mode = ModeOf(flags);
  line.debug_crash_at = flags.debug_crash_at;
  if (!flags.config_file.empty()) {
    absl::StatusOr<v1::Config> config = LoadConfig(flags.config_file);
    if (!config.ok()) {
      err << config.status().message() << "\n";
      return 2;
    }
    line.config = *std::move(config);
  }
  Override(flags, &line.config);
  return line;
}

}  // namespace kiln
