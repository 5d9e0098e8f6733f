// Requests that differ in sizes, through a whole daemon.
#include "absl/strings/str_cat.h"
#include "cache/digest.h"
#include "compiler/artifact/call_spec.h"
#include "server/request_key.h"
#include "server/testing/test_daemon.h"
#include "server/wire.h"

namespace kiln {
namespace {

class GeneralizeE2e : public DaemonTest {
 protected:
  // One input of `size` rows; the fakes' code takes and gives nothing, and so does the graph.
  static v1::CompileRequest Sized(int64_t size) {
    v1::CompileRequest request = TestRequest({"torch.relu"});
    AddVectorInput(size, &request);
    return request;
  }

  void Put(int64_t size, const std::string& refused = "") {
    v1::PutCallSpecRequest put;
    put.set_protocol_version(1);
    *put.mutable_request() = Sized(size);
    put.mutable_variant()->set_version(kVariantVersion);
    if (refused.empty()) {
      put.mutable_variant()->mutable_spec();
      put.set_action(Compile({"kernel.a"}).done().key());
    }
    put.mutable_variant()->set_refused(refused);
    grpc::ClientContext context;
    TestClient::SetDeadline(&context);
    v1::PutCallSpecReply reply;
    const grpc::Status status = client_->compiler().PutCallSpec(&context, put, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
};

TEST_F(GeneralizeE2e, TheThirdSizeIsToldWhatTheyHaveInCommon) {
  StartDaemon();
  Put(4);
  EXPECT_FALSE(client_->Lookup(Sized(6)).has_generalization());
  Put(6);
  const v1::LookupReply third = client_->Lookup(Sized(9));
  EXPECT_FALSE(third.hit());
  EXPECT_EQ(third.reason(), "not in the cache");
  ASSERT_EQ(third.generalization().places_size(), 1);
  EXPECT_EQ(third.generalization().places(0).value(), 0u);
  EXPECT_EQ(third.generalization().syms().symbols_size(), 1);
  StopDaemon();
  StartDaemon();
  EXPECT_EQ(client_->Lookup(Sized(11)).generalization().SerializeAsString(),
            third.generalization().SerializeAsString());
}

TEST_F(GeneralizeE2e, AHitAndADigestAreToldNothing) {
  StartDaemon();
  for (const int64_t size : {4, 6, 9}) Put(size);
  ASSERT_TRUE(client_->Lookup(Sized(11)).has_generalization());
  const v1::LookupReply hit = client_->Lookup(Sized(6));
  EXPECT_TRUE(hit.hit());
  EXPECT_FALSE(hit.has_generalization());
  v1::LookupRequest lookup;
  lookup.set_protocol_version(1);
  lookup.set_request_digest(ToProto(Digest::Of(RequestBytes(Sized(11)))).sha256());
  grpc::ClientContext context;
  TestClient::SetDeadline(&context);
  v1::LookupReply miss;
  ASSERT_TRUE(client_->compiler().Lookup(&context, lookup, &miss).ok());
  EXPECT_FALSE(miss.hit() || miss.has_generalization());
}

TEST_F(GeneralizeE2e, WhatIsRefusedIsNoInstance) {
  StartDaemon();
  for (const int64_t size : {4, 6}) Put(size, "operators with effects");
  EXPECT_FALSE(client_->Lookup(Sized(9)).has_generalization());
}

TEST_F(GeneralizeE2e, ANewBuildBeginsAnew) {
  StartDaemon();
  for (const int64_t size : {4, 6}) Put(size);
  ASSERT_TRUE(client_->Lookup(Sized(9)).has_generalization());
  StopDaemon();
  StartDaemon("", nullptr, "ba9876543210");
  EXPECT_FALSE(client_->Lookup(Sized(9)).has_generalization());
}

}  // namespace
}  // namespace kiln
