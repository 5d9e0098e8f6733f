#include "client/cli/cli.h"

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>

#include "absl/time/clock.h"
#include "client/local/local_daemon.h"
#include "client/local/version.h"

namespace kiln {
namespace {

constexpr char kFooter[] =
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 the server cannot be reached.\n"
    "Environment: KILN_SERVER names the server where --server does not.\n"
    "\n"
    "  kilnctl status                    what runs\n"
    "  kilnctl stats --json | jq .totals\n"
    "  kilnctl cache inspect 3fa9        an entry by the first digits of its key\n"
    "  kilnctl explain --last trainer    why a job compiled, instead of using what is there\n"
    "  kilnctl prewarm job.kiln          compile ahead what a job recorded";

// A call that found nobody, as against one that was answered.
bool IsUnreachable(const grpc::Status& call) {
  return call.error_code() == grpc::StatusCode::UNAVAILABLE || call.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

void AddGlobalFlags(CLI::App& app, Cli& cli) {
  app.add_option("--server", cli.server, "unix:/path or host:port; default: this user's own daemon")
      ->envname("KILN_SERVER")
      ->type_name("ADDRESS");
  app.add_flag("--json", cli.json, "one JSON object instead of tables");
  app.add_option("--timeout", cli.timeout_seconds, "seconds to wait for an answer")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  app.set_version_flag("--version", std::string("kilnctl ") + kVersion);
}

}  // namespace

std::shared_ptr<grpc::Channel> Cli::Connect() {
  if (server.empty()) {
    const absl::StatusOr<std::string> address = LocalAddress(FindKilnd());
    if (!address.ok()) {
      err << "kilnctl: no --server, and no local daemon: " << address.status().message() << "\n";
      status = kUnreachable;
      return nullptr;
    }
    server = *address;
  }
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), args);
}

void Cli::SetDeadline(grpc::ClientContext* context) const {
  context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(timeout_seconds)));
}

bool Cli::Check(const grpc::Status& call) {
  if (call.ok()) return true;
  if (IsUnreachable(call)) {
    err << "kilnctl: cannot reach " << server << ": " << call.error_message() << "\n";
    status = kUnreachable;
  } else {
    err << "kilnctl: " << call.error_message() << "\n";
    status = kFailed;
  }
  return false;
}

int RunKilnctl(int argc, const char* const* argv, std::ostream& out, std::ostream& err, bool terminal) {
  Cli cli{.out = out, .err = err, .terminal = terminal};
  CLI::App app("kilnctl: asks and steers kilnd, the compile server for torch.compile", "kilnctl");
  app.require_subcommand(1);
  app.fallthrough();  // global flags may come after the verb
  AddGlobalFlags(app, cli);
  AddStatus(app, cli);
  AddStats(app, cli);
  CLI::App* cache = app.add_subcommand("cache", "list, show and remove the cache's entries");
  cache->require_subcommand(1);
  cache->fallthrough();
  AddCacheLs(*cache, cli);
  AddCacheInspect(*cache, cli);
  AddCacheRm(*cache, cli);
  AddExplain(app, cli);
  AddOps(app, cli);
  AddVersion(app, cli);
  AddDrain(app, cli);
  AddPrewarm(app, cli);
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e, out, err) == 0 ? kOk : kUsage;
  }
  return cli.status;
}

}  // namespace kiln
