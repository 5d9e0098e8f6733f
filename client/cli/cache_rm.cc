// kilnctl cache rm KEY | --negative | --all
#include "client/cli/cli.h"

namespace kiln {
namespace {

void Run(Cli& cli, const v1::RemoveEntriesRequest& request) {
  v1::RemoveEntriesReply reply;
  if (!cli.Call(&v1::Admin::Stub::RemoveEntries, request, &reply)) return;
  if (cli.json) return cli.PrintJson(reply);
  cli.out << "removed " << reply.removed() << (reply.removed() == 1 ? " entry\n" : " entries\n");
}

}  // namespace

void AddCacheRm(CLI::App& cache, Cli& cli) {
  auto request = std::make_shared<v1::RemoveEntriesRequest>();
  CLI::App* verb = cache.add_subcommand("rm", "remove one entry, the refused graphs, or everything");
  CLI::Option_group* which = verb->add_option_group("which");
  which->require_option(1);
  which->add_option_function<std::string>(
      "KEY", [request](const std::string& key) { request->set_key_prefix(key); }, "at least 4 first digits of the key");
  which->add_flag_callback("--negative", [request] { request->set_negative(true); }, "graphs that are refused");
  which->add_flag_callback("--all", [request] { request->set_all(true); }, "entries and kernels");
  verb->callback([&cli, request] { Run(cli, *request); });
}

}  // namespace kiln
