// Look-ups of Dynamo's graphs through a whole daemon: what a client has put is found again, by whom it is for.
#include <functional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cache/digest.h"
#include "compiler/artifact/call_spec.h"
#include "server/request_key.h"
#include "server/testing/test_daemon.h"
#include "server/wire.h"

namespace kiln {
namespace {

class VariantsE2e : public DaemonTest {
 protected:
  static v1::CompileRequest Torch(const std::string& op = "torch.relu") {
    v1::CompileRequest request = TestRequest({op});
    request.mutable_graph()->set_level(v1::Graph::TORCH);
    return request;
  }

  // The general variant of Torch(), for the code of `action`; the fakes' code takes and gives nothing.
  static v1::PutCallSpecRequest Variant(const std::string& action) {
    v1::PutCallSpecRequest put;
    put.set_protocol_version(1);
    *put.mutable_request() = Torch();
    put.mutable_variant()->set_version(kVariantVersion);
    put.mutable_variant()->mutable_spec();
    put.set_action(action);
    return put;
  }

  // The variant of sizes that are at least `least`.
  static v1::PutCallSpecRequest AtLeast(int64_t least, const std::string& action) {
    v1::PutCallSpecRequest put = Variant(action);
    v1::SymTable* syms = put.mutable_variant()->mutable_syms();
    syms->add_symbols()->set_max(1000);
    syms->add_exprs()->set_op(v1::SymExpr::SYMBOL);
    v1::SymExpr* constant = syms->add_exprs();
    constant->set_op(v1::SymExpr::CONST);
    constant->set_value(least);
    v1::Predicate* predicate = put.mutable_variant()->add_predicates();
    predicate->set_op(v1::Predicate::LE);
    predicate->set_lhs(1);
    predicate->set_rhs(0);
    return put;
  }

  grpc::Status Put(const v1::PutCallSpecRequest& request, v1::PutCallSpecReply* reply = nullptr) {
    grpc::ClientContext context;
    TestClient::SetDeadline(&context);
    v1::PutCallSpecReply ignored;
    return client_->compiler().PutCallSpec(&context, request, reply != nullptr ? reply : &ignored);
  }

  v1::LookupReply LookUp(const std::vector<int64_t>& hints = {}, const v1::CompileRequest& request = Torch()) {
    v1::LookupRequest lookup;
    lookup.set_protocol_version(1);
    lookup.set_request_digest(ToProto(Digest::Of(RequestBytes(request))).sha256());
    lookup.mutable_hints()->Assign(hints.begin(), hints.end());
    grpc::ClientContext context;
    TestClient::SetDeadline(&context);
    v1::LookupReply reply;
    const grpc::Status status = client_->compiler().Lookup(&context, lookup, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
};

TEST_F(VariantsE2e, WhatWasPutIsFoundByDigestAndByRequest) {
  StartDaemon();
  const v1::LookupReply miss = LookUp();
  EXPECT_FALSE(miss.hit());
  EXPECT_EQ(miss.reason(), "not in the cache");
  const v1::Done done = Compile({"kernel.a"}).done();
  v1::PutCallSpecReply reply;
  ASSERT_TRUE(Put(Variant(done.key()), &reply).ok());
  EXPECT_EQ(reply.key(), miss.key());

  for (const v1::LookupReply& hit : {LookUp(), client_->Lookup(Torch())}) {
    EXPECT_TRUE(hit.hit());
    EXPECT_EQ(hit.key(), miss.key());
    EXPECT_TRUE(hit.variant().has_spec());
    EXPECT_EQ(hit.done().key(), done.key());
    EXPECT_EQ(hit.done().record().SerializeAsString(), done.record().SerializeAsString());
    std::string artifact;
    ASSERT_TRUE(client_->Fetch(hit.done().record().artifact(), 0, &artifact).ok());
    EXPECT_EQ(artifact, done.artifact());
  }
  EXPECT_FALSE(LookUp({}, Torch("torch.sin")).hit());
}

TEST_F(VariantsE2e, AHitIsCountedAndAMissIsNot) {
  StartDaemon();
  const v1::Done done = Compile({"kernel.a"}).done();
  LookUp();
  ASSERT_TRUE(Put(Variant(done.key())).ok());
  LookUp();
  EXPECT_EQ(Totals().lookups(), 2u);
  EXPECT_EQ(Totals().hits(), 1u);
  EXPECT_EQ(Totals().misses(), 1u);
  EXPECT_GT(Totals().seconds_saved(), 0);
}

// Or its code would be served on, by look-ups that nobody sees.
TEST_F(VariantsE2e, GoWithTheEntryThatIsRemoved) {
  StartDaemon();
  const v1::Done a = Compile({"kernel.a"}).done(), b = Compile({"kernel.b"}).done();
  ASSERT_TRUE(Put(Variant(a.key())).ok());
  v1::PutCallSpecRequest other = Variant(b.key());
  *other.mutable_request() = Torch("torch.sin");
  ASSERT_TRUE(Put(other).ok());
  v1::RemoveEntriesRequest request;
  request.set_key_prefix(absl::BytesToHexString(a.key()));
  grpc::ClientContext context;
  TestClient::SetDeadline(&context);
  v1::RemoveEntriesReply removed;
  ASSERT_TRUE(client_->admin().RemoveEntries(&context, request, &removed).ok());
  EXPECT_EQ(removed.removed(), 1u);
  EXPECT_FALSE(LookUp().hit());
  EXPECT_TRUE(LookUp({}, Torch("torch.sin")).hit());
}

TEST_F(VariantsE2e, SurviveARestart) {
  StartDaemon();
  ASSERT_TRUE(Put(Variant(Compile({"kernel.a"}).done().key())).ok());
  StopDaemon();
  StartDaemon();
  EXPECT_TRUE(LookUp().hit());
}

TEST_F(VariantsE2e, TheMostSpecificThatHoldsIsTheAnswer) {
  StartDaemon();
  const std::string a = Compile({"kernel.a"}).done().key(), b = Compile({"kernel.b"}).done().key();
  ASSERT_TRUE(Put(AtLeast(10, a)).ok());
  EXPECT_EQ(LookUp({12}).done().key(), a);
  EXPECT_FALSE(LookUp({9}).hit());
  EXPECT_FALSE(LookUp({}).hit());
  EXPECT_FALSE(LookUp({1001}).hit());
  ASSERT_TRUE(Put(Variant(b)).ok());
  EXPECT_EQ(LookUp({12}).done().key(), a);
  EXPECT_EQ(LookUp({9}).done().key(), b);
}

TEST_F(VariantsE2e, ARefusedKindSaysWhy) {
  StartDaemon();
  v1::PutCallSpecRequest put = Variant("");
  put.mutable_variant()->clear_spec();
  put.mutable_variant()->set_refused("operators with effects");
  ASSERT_TRUE(Put(put).ok());
  const v1::LookupReply reply = LookUp();
  EXPECT_FALSE(reply.hit());
  EXPECT_EQ(reply.reason(), "operators with effects");
  EXPECT_EQ(reply.variant().refused(), "operators with effects");
}

TEST_F(VariantsE2e, WhatDoesNotFitIsRefused) {
  StartDaemon();
  const std::string action = Compile({"kernel.a"}).done().key();
  const auto refusal = [&](const std::function<void(v1::PutCallSpecRequest&)>& change) {
    v1::PutCallSpecRequest put = AtLeast(1, action);
    change(put);
    const grpc::Status status = Put(put);
    return absl::StrCat(static_cast<int>(status.error_code()), " ", status.error_message());
  };
  EXPECT_EQ(refusal([](auto& p) { p.mutable_variant()->set_version(9); }),
            "3 variant.version: the client's is 9, the server's is 1");
  EXPECT_EQ(refusal([](auto& p) { p.mutable_request()->mutable_graph()->set_level(v1::Graph::JOINT); }),
            "3 request.graph.level: CallSpecs are for graphs of level TORCH");
  EXPECT_EQ(refusal([](auto& p) { p.mutable_request()->mutable_graph()->add_inputs(); }),
            "3 request.graph: has 1 inputs, the compiled code 0");
  EXPECT_EQ(refusal([](auto& p) { p.mutable_variant()->mutable_spec()->set_num_inputs(3); }),
            "3 spec.num_inputs: is 3, the compiled code has 0");
  EXPECT_EQ(refusal([](auto& p) { p.mutable_variant()->mutable_spec()->set_training(true); }),
            "3 spec.training: is 1, the compiled code is for inference");
  EXPECT_EQ(refusal([](auto& p) { p.mutable_variant()->mutable_predicates(0)->set_lhs(7); }),
            "3 predicates[0]: there is no such expression");
  EXPECT_EQ(refusal([](auto& p) { p.mutable_variant()->mutable_syms()->mutable_exprs(1)->add_args(1); }),
            "3 syms.exprs[1]: wrong number of operands");
  EXPECT_EQ(refusal([](auto& p) { p.set_action("short"); }).substr(0, 10), "3 action: ");
  EXPECT_EQ(refusal([](auto& p) { p.set_action(std::string(32, 'k')); }),
            "9 action: there is no such compiled code in the cache");
  EXPECT_EQ(refusal([](auto& p) { p.mutable_variant()->set_refused(std::string(1 << 20, 'x')); }).substr(0, 2), "8 ");
  EXPECT_FALSE(LookUp({5}).hit());
  EXPECT_EQ(refusal([](auto&) {}), "0 ");
}

TEST_F(VariantsE2e, ADigestHas32Bytes) {
  StartDaemon();
  v1::LookupRequest lookup;
  lookup.set_protocol_version(1);
  const auto status = [&] {
    grpc::ClientContext context;
    TestClient::SetDeadline(&context);
    v1::LookupReply reply;
    return client_->compiler().Lookup(&context, lookup, &reply);
  };
  EXPECT_EQ(status().error_message(), "request, request_digest: want one of them");
  lookup.set_request_digest("short");
  EXPECT_EQ(status().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(VariantsE2e, AGraphHasABoundedNumberOfThem) {
  StartDaemon();
  const std::string action = Compile({"kernel.a"}).done().key();
  for (size_t i = 0; i < 64; ++i) ASSERT_TRUE(Put(AtLeast(static_cast<int64_t>(i), action)).ok());
  EXPECT_EQ(Put(AtLeast(64, action)).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Put(AtLeast(63, action)).ok());  // there already
  EXPECT_TRUE(LookUp({63}).hit());
}

TEST_F(VariantsE2e, TheyAreLookedUpAndNotCompiled) {
  StartDaemon();
  EXPECT_EQ(client_->Compile(Torch()).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kiln
