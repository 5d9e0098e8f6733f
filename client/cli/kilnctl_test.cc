// Every verb against a daemon with a fake compiler.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cpp/digest.h"
#include "compiler/artifact/abi.h"
#include "compiler/artifact/call_spec.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "server/testing/test_client.h"

extern char** environ;

namespace kiln {
namespace {

struct Output {
  int status;
  std::string out, err;
};

class Kilnctl : public testing::Test {
 protected:
  void SetUp() override {
    address_ = "unix:" + folder_.File("s.sock");
    std::vector<std::string> args = {TestProgram("fake_kilnd"),         "--listen=" + address_,
                                     "--data-dir=" + folder_.File("d"), "--workers=2",
                                     "--worker-memory-mib=1024",        "--log-level=warn"};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    ASSERT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    client_ = std::make_unique<TestClient>(address_);
    ASSERT_EQ(client_->Status().pid(), pid_);  // waits until it is there
  }
  void TearDown() override {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  Output Run(std::vector<std::string> args, bool terminal = false) {
    args.insert(args.begin(), {"kilnctl", "--server", address_});
    std::vector<const char*> argv;
    for (const std::string& arg : args) argv.push_back(arg.c_str());
    std::ostringstream out, err;
    const int status = RunKilnctl(static_cast<int>(argv.size()), argv.data(), out, err, terminal);
    return {status, out.str(), err.str()};
  }
  std::string CompileKey(const std::vector<std::string>& ops) {
    return absl::BytesToHexString(client_->Compile(TestRequest(ops, "trainer")).done().key());
  }
  std::string Record(const std::vector<std::vector<std::string>>& graphs) {
    const std::string path = folder_.File("record");
    std::ofstream file(path, std::ios::binary);
    for (const std::vector<std::string>& ops : graphs) {
      v1::Recorded recorded;
      *recorded.mutable_compile() = TestRequest(ops);
      google::protobuf::util::SerializeDelimitedToOstream(recorded, &file);
    }
    return path;
  }

  TestFolder folder_;
  std::string address_;
  pid_t pid_ = -1;
  std::unique_ptr<TestClient> client_;
};

#define EXPECT_HAS(text, part) EXPECT_TRUE(absl::StrContains(text, part)) << "no " << (part) << " in\n" << (text)

TEST_F(Kilnctl, Status) {
  ASSERT_TRUE(Eventually([&] { return client_->IdleWorkers().size() == 2; }));
  const Output text = Run({"status"});
  EXPECT_EQ(text.status, kOk) << text.err;
  EXPECT_HAS(text.out, "state      serving, up ");
  EXPECT_HAS(text.out, absl::StrCat("addresses  ", address_));
  EXPECT_HAS(text.out, "WORKER  STATE  JOB  FOR  JOBS DONE\n");
  EXPECT_FALSE(absl::StrContains(text.out, "\x1b"));
  EXPECT_HAS(Run({"status"}, true).out, "\x1b[1m");
  const Output json = Run({"status", "--json"});
  EXPECT_HAS(json.out, absl::StrCat("{\"pid\":", pid_, ",\"build\":\""));
  EXPECT_HAS(json.out, "\"state\":\"idle\"");
  EXPECT_EQ(json.out.find('\n'), json.out.size() - 1);
}

TEST_F(Kilnctl, Stats) {
  CompileKey({"kernel.a"});
  CompileKey({"kernel.a"});
  const Output json = Run({"--json", "stats"});
  EXPECT_HAS(json.out, "{\"totals\":{\"lookups\":2,\"hits\":1,\"misses\":1,\"compiles\":1,\"joined\":0,");
  EXPECT_HAS(json.out, "\"jobs\":[{\"job\":\"trainer\",\"counters\":{\"lookups\":2,");
  const Output text = Run({"stats"});
  EXPECT_HAS(text.out, "JOB      LOOKUPS  HITS  MISSES  COMPILES");
  EXPECT_HAS(text.out, "\ntrainer        2     1       1         1");
  EXPECT_HAS(text.out, "cache      1 entries, 0 negative");
}

TEST_F(Kilnctl, CacheLsInspectRm) {
  const std::string key = CompileKey({"kernel.a"});
  const Output list = Run({"cache", "ls"});
  EXPECT_HAS(list.out, key.substr(0, 16));
  EXPECT_HAS(list.out, "trainer");
  EXPECT_HAS(Run({"cache", "ls", "--json"}).out, absl::StrCat("{\"entries\":[{\"key\":\"", key, "\""));

  const Output entry = Run({"cache", "inspect", key.substr(0, 8), "--kernels"});
  EXPECT_EQ(entry.status, kOk);
  EXPECT_HAS(entry.out, absl::StrCat("key        ", key, "\n"));
  EXPECT_HAS(entry.out, "\ntarget         x86-64-v3\n");
  EXPECT_HAS(entry.out, "grad_mode");
  EXPECT_HAS(entry.out, ":\na\n");
  EXPECT_HAS(Run({"cache", "inspect", key, "--json"}).out, "\"guards\":{");
  const Output none = Run({"cache", "inspect", key[0] == '0' ? "1111" : "0000"});
  EXPECT_EQ(none.status, kFailed);
  EXPECT_HAS(none.err, "kilnctl: no entry's key starts with");

  EXPECT_EQ(Run({"cache", "rm"}).status, kUsage);
  EXPECT_EQ(Run({"cache", "rm", "--all", "--negative"}).status, kUsage);
  EXPECT_EQ(Run({"cache", "rm", key}).out, "removed 1 entry\n");
  EXPECT_EQ(Run({"cache", "rm", "--all", "--json"}).out, "{\"removed\":1}\n");  // the kernel
}

TEST_F(Kilnctl, Explain) {
  const Output nobody = Run({"explain", "--last", "trainer"});
  EXPECT_EQ(nobody.status, kFailed);
  EXPECT_HAS(nobody.err, "kilnctl: none of the 0 newest entries was compiled for the job 'trainer'");
  const std::string first = CompileKey({"kernel.a"});
  EXPECT_HAS(Run({"explain", first}).out, "there is no other entry of its kind\n");
  v1::CompileRequest request = TestRequest({"kernel.a"}, "second");
  request.mutable_guards()->mutable_globals(0)->set_value("False");
  request.mutable_options()->set_precision(v1::Options::FAST);
  const std::string second = absl::BytesToHexString(client_->Compile(request).done().key());

  const Output text = Run({"explain", "--last", "second"});
  EXPECT_EQ(text.status, kOk) << text.err;
  EXPECT_HAS(text.out, absl::StrCat("code ", second.substr(0, 16), ", made "));
  EXPECT_HAS(text.out, absl::StrCat("\nbeside ", first.substr(0, 16), ", made "));
  EXPECT_HAS(text.out, ", job trainer\n");
  EXPECT_HAS(text.out,
             "PART       WHAT       WAS    IS\n"
             "precision  -          EAGER  FAST\n"
             "guards     grad_mode  -      False\n"
             "  -> set the option precision (KILN_PRECISION) alike in all jobs\n"
             "  -> the code ran with gradients and without");
  EXPECT_EQ(Run({"explain", second.substr(0, 12)}).out, text.out);
  EXPECT_HAS(Run({"explain", first}).out, ", job second, after it\n");
  const Output json = Run({"explain", second, "--json"});
  EXPECT_HAS(json.out, absl::StrCat("{\"entry\":{\"key\":\"", second, "\",\"created_unix_micros\":"));
  EXPECT_HAS(
      json.out,
      "\"differences\":[{\"part\":\"precision\",\"what\":\"\",\"before\":\"EAGER\",\"after\":\"FAST\",\"advice\":");
  EXPECT_HAS(json.out, "\"omitted\":0}],\"compared\":1,\"truncated\":false}\n");
  EXPECT_EQ(Run({"explain"}).status, kUsage);
  EXPECT_EQ(Run({"explain", second, "--last", "second"}).status, kUsage);
  EXPECT_EQ(Run({"explain", "xyz!"}).status, kFailed);
  EXPECT_HAS(Run({"explain", "--help"}).out, "kilnctl explain --last trainer");
}

TEST_F(Kilnctl, NegativeEntries) {
  client_->Compile(TestRequest({"fake.crash"}));
  const Output list = Run({"cache", "ls", "--negative"});
  EXPECT_HAS(list.out, "the plan job cost 2 workers");
  EXPECT_HAS(list.out, "reproducer");
  EXPECT_EQ(Run({"cache", "rm", "--negative"}).out, "removed 1 entry\n");
}

TEST_F(Kilnctl, Ops) {
  const Output all = Run({"ops"});
  EXPECT_EQ(all.status, kOk) << all.err;
  EXPECT_EQ(all.out,
            "OP   KIND       GRADIENT  BUDGET   ERROR               TORCH\n"
            "exp  pointwise  rule      1.5 ulp  exp 1.025 of 1.05*  aten.exp.default\n"
            "mm   external   rule      -        -                   aten.mm.default\n"
            "sum  reduction  rule      -        -                   aten.sum.dim_IntList\n");
  EXPECT_EQ(
      Run({"ops", "ex", "--json"}).out,
      "{\"ops\":[{\"name\":\"exp\",\"schema\":\"\",\"torch\":[\"aten.exp.default\"],\"kind\":\"pointwise\","
      "\"gradient\":\"rule\",\"budget\":{\"ulp\":1.5,\"floor\":0,\"result_ulp\":0.5},\"functions\":[{\"name\":\"exp\","
      "\"f32_budget\":1.05,\"f32_measured\":1.025,\"f64_budget\":1.05,\"f64_measured\":0.959,"
      "\"exhaustive\":true}]}]}\n");
  const auto names = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "ops");
    std::istringstream lines(Run(args).out);
    std::string header, names;
    std::getline(lines, header);
    for (std::string line; std::getline(lines, line);) names += line.substr(0, line.find(' ')) + " ";
    return names;
  };
  EXPECT_EQ(names({"m"}), "mm sum ");
  EXPECT_EQ(names({"m*"}), "mm ");
  EXPECT_EQ(names({"?m"}), "mm ");
  EXPECT_EQ(names({"a*"}), "");
  EXPECT_EQ(names({"aten.sum"}), "sum ");
  EXPECT_EQ(names({"aten.*.default"}), "exp mm ");
  EXPECT_EQ(names({"--kind", "external"}), "mm ");
  EXPECT_EQ(names({"--kind", "reduction", "m"}), "sum ");
  const Output none = Run({"ops", "s*m*x"});
  EXPECT_EQ(none.status, kFailed);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "kilnctl: none of the server's 3 operators is like that\n");
  EXPECT_EQ(Run({"ops", "--kind", "nonsense"}).status, kUsage);
  EXPECT_HAS(Run({"ops", "--help"}).out, "kilnctl ops softmax");
}

TEST_F(Kilnctl, VersionDrain) {
  EXPECT_HAS(Run({"version"}).out, ", build ");
  EXPECT_HAS(Run({"version", "--json"}).out, "\"server\":{\"version\":\"");
  EXPECT_EQ(Run({"drain"}).out, "drained: no compile is in flight, none is begun\n");
  EXPECT_EQ(Run({"drain", "--json"}).out, "{\"in_flight\":0}\n");
  EXPECT_HAS(Run({"status"}).out, "state      draining");
}

TEST_F(Kilnctl, PrewarmMakesTheJobHit) {
  const std::string file = Record({{"kernel.a"}, {"kernel.b", "kernel.c"}, {"kernel.a"}});
  const Output text = Run({"prewarm", file, "--parallel", "1"});
  EXPECT_EQ(text.status, kOk) << text.err;
  EXPECT_HAS(text.out, "3 graphs in ");
  EXPECT_HAS(text.out, ": 2 compiled, 1 in the cache already, 0 joined, 0 failed; 0 ready for look-ups\n");
  EXPECT_EQ(client_->Compile(TestRequest({"kernel.b", "kernel.c"})).done().outcome(), v1::Done::HIT);
  EXPECT_HAS(Run({"prewarm", file, "--json"}).out, "{\"requests\":3,\"hits\":3,\"compiled\":0,");
  EXPECT_HAS(Run({"prewarm", file}, true).out, "3/3 graphs");
}

TEST_F(Kilnctl, PrewarmMakesLookUpsHit) {
  const std::string file = Record({{"kernel.a"}});
  v1::CompileRequest torch = TestRequest({"torch.relu"});
  torch.mutable_graph()->set_level(v1::Graph::TORCH);
  const auto add = [&](const std::string& action, bool refused) {
    v1::Recorded recorded;
    v1::PutCallSpecRequest* put = recorded.mutable_call_spec();
    put->set_protocol_version(kProtocolVersion);
    *put->mutable_request() = torch;
    put->mutable_variant()->set_version(kVariantVersion);
    refused ? put->mutable_variant()->set_refused("aliases") : (void)put->mutable_variant()->mutable_spec();
    put->set_action(action);
    std::ofstream out(file, std::ios::binary | std::ios::app);
    google::protobuf::util::SerializeDelimitedToOstream(recorded, &out);
  };
  add(DigestOf(TestRequest({"kernel.a"}).SerializeAsString()).sha256(), false);
  add("of a compile that is not there", false);
  EXPECT_HAS(Run({"prewarm", file}).out,
             "1 compiled, 0 in the cache already, 0 joined, 0 failed; 1 ready for look-ups");
  EXPECT_TRUE(client_->Lookup(torch).hit());
  add("", true);
  EXPECT_HAS(Run({"prewarm", file, "--json"}).out, "\"lookups\":2");
}

TEST_F(Kilnctl, PrewarmTellsWhatFails) {
  const Output text = Run({"prewarm", Record({{"kernel.a"}, {"fake.invalid:3"}})});
  EXPECT_EQ(text.status, kFailed);
  EXPECT_HAS(text.out, "1 compiled, 0 in the cache already, 0 joined, 1 failed");
  EXPECT_EQ(text.err, "graph 1: nodes[3]: fake\n");
  EXPECT_HAS(Run({"prewarm", folder_.File("record"), "--json"}).out,
             "\"failures\":[{\"request\":1,\"message\":\"nodes[3]: fake\"}]");
}

TEST_F(Kilnctl, PrewarmReadsWhatADyingJobLeft) {
  const std::string file = Record({{"kernel.a"}, {"kernel.b"}});
  ASSERT_EQ(truncate(file.c_str(), static_cast<off_t>(FileSize(file)) - 5), 0);
  const Output text = Run({"prewarm", file});
  EXPECT_EQ(text.status, kOk);
  EXPECT_HAS(text.out, "1 graphs in ");
  EXPECT_HAS(text.err, "ends within a graph");
  EXPECT_EQ(Run({"prewarm", folder_.File("none")}).status, kFailed);
  std::ofstream(folder_.File("junk")) << "\xff\xff\xff\xff\xff";
  EXPECT_HAS(Run({"prewarm", folder_.File("junk")}).err, "is not a recording");
}

TEST_F(Kilnctl, ExitStatuses) {
  EXPECT_EQ(Run({}).status, kUsage);
  EXPECT_EQ(Run({"nonsense"}).status, kUsage);
  EXPECT_EQ(Run({"status", "--nonsense"}).status, kUsage);
  EXPECT_EQ(Run({"cache", "inspect"}).status, kUsage);
  EXPECT_EQ(Run({"--help"}).status, kOk);
  EXPECT_HAS(Run({"--help"}).out, "Exit status: 0 done");
  EXPECT_EQ(Run({"stats", "--help"}).status, kOk);
  address_ = "unix:" + folder_.File("nobody");
  const Output gone = Run({"status", "--timeout", "5"});
  EXPECT_EQ(gone.status, kUnreachable);
  EXPECT_HAS(gone.err, absl::StrCat("kilnctl: cannot reach ", address_));
  EXPECT_EQ(Run({"version"}).status, kOk);
  EXPECT_HAS(Run({"version", "--json"}).out, "\"server\":null");
  EXPECT_EQ(Run({"prewarm", Record({{"kernel.a"}})}).status, kUnreachable);
}

}  // namespace
}  // namespace kiln
