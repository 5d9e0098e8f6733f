#include "client/cpp/loader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "client/cpp/digest.h"
#include "client/cpp/fake_torch.h"
#include "client/cpp/host.h"
#include "client/cpp/testing.h"
#include "compiler/artifact/abi.h"

namespace kiln {
namespace {

// Some shared object: the one that holds `address`.
std::string BytesOfLibraryOf(void* address) {
  Dl_info info;
  EXPECT_NE(dladdr(address, &info), 0);
  std::ifstream in(info.dli_fname, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

std::string Sodium() { return BytesOfLibraryOf(dlsym(RTLD_DEFAULT, "crypto_hash_sha256")); }

const HostFacts kHost{.target = "x86-64-v3", .torch_version = "2.13.0", .aoti_abi = 5};

v1::Artifact ForHost(v1::Artifact artifact) {
  artifact.mutable_target()->set_name("x86-64-v2");
  artifact.mutable_target()->mutable_host()->set_torch_version("2.13.0");
  artifact.mutable_target()->mutable_host()->set_aoti_abi(5);
  artifact.mutable_target()->mutable_host()->set_kiln_abi(kKilnAbi);
  return artifact;
}

constexpr char kNothing[] = "name: \"f\" syms { exprs { op: CONST } }";

absl::Status Load(const v1::Artifact& artifact, const std::string& object = "") {
  return LoadedArtifact::Load(artifact.SerializeAsString(), object, kHost, &FakeTorch(), nullptr).status();
}

TEST(SharedObject, EachLoadIsAMappingOfItsOwn) {
  const std::string bytes = Sodium();
  absl::StatusOr<std::unique_ptr<SharedObject>> one = SharedObject::Map(bytes), two = SharedObject::Map(bytes);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  EXPECT_NE((*one)->Kernel("sodium_init"), nullptr);
  EXPECT_NE((*one)->Kernel("sodium_init"), (*two)->Kernel("sodium_init"));
  EXPECT_EQ((*one)->Kernel("no_such_symbol"), nullptr);
}

TEST(SharedObject, GarbageIsRefused) {
  EXPECT_EQ(SharedObject::Map("").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(SharedObject::Map(std::string(5000, 'x')).status().code(), absl::StatusCode::kUnavailable);
}

TEST(LoadedArtifact, KernelsAreFoundByName) {
  const std::string object = Sodium();
  v1::Artifact artifact = ForHost(ArtifactOf(kNothing));
  artifact.add_kernels()->set_symbol("sodium_init");
  *artifact.mutable_shared_object() = DigestOf(object);
  EXPECT_TRUE(Load(artifact, object).ok());
  EXPECT_EQ(Load(artifact, object + "x").code(), absl::StatusCode::kDataLoss);
  artifact.mutable_kernels(0)->set_symbol("sodium_exit");
  EXPECT_EQ(Load(artifact, object), absl::InvalidArgumentError("the shared object has no sodium_exit"));
  artifact.mutable_kernels(0)->set_symbol("../x");
  EXPECT_EQ(Load(artifact, object), absl::InvalidArgumentError("kernels[0].symbol: not a name"));
  artifact.clear_shared_object();
  EXPECT_EQ(Load(artifact), absl::InvalidArgumentError("kernels but no shared_object"));
}

TEST(LoadedArtifact, OtherHostsAreNamed) {
  const v1::Artifact good = ForHost(ArtifactOf(kNothing));
  EXPECT_TRUE(Load(good).ok());
  const auto refused = [&](auto change) {
    v1::Artifact artifact = good;
    change(artifact);
    const absl::Status status = Load(artifact);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_EQ(refused([](auto& a) { a.set_version(9); }), "the artifact is for artifact version 9, this is version 3");
  EXPECT_EQ(refused([](auto& a) { a.mutable_target()->set_name("x86-64-v4"); }),
            "the artifact is for x86-64-v4, this machine is x86-64-v3");
  EXPECT_EQ(refused([](auto& a) { a.mutable_target()->mutable_host()->set_torch_version("2.14.0"); }),
            "the artifact is for torch 2.14.0, this is torch 2.13.0");
  EXPECT_EQ(refused([](auto& a) { a.mutable_target()->mutable_host()->set_aoti_abi(6); }),
            "the artifact is for torch ABI 6, this is 5");
}

TEST(LoadedArtifact, ConstantsKeepTheirDigest) {
  v1::Artifact artifact = ForHost(ArtifactOf(kNothing));
  artifact.add_constants()->set_data("weights");
  *artifact.mutable_constants(0)->mutable_digest() = DigestOf("weights");
  EXPECT_TRUE(Load(artifact).ok());
  artifact.mutable_constants(0)->set_data("Weights");
  EXPECT_EQ(Load(artifact).code(), absl::StatusCode::kDataLoss);
}

TEST(LoadedArtifact, GarbageIsRefused) {
  EXPECT_EQ(LoadedArtifact::Load("\xff", "", kHost, &FakeTorch(), nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  v1::Artifact artifact = ForHost({});
  artifact.set_version(kArtifactVersion);
  EXPECT_EQ(Load(artifact), absl::InvalidArgumentError("artifact: 0 functions"));
}

TEST(HostTarget, EachLevelRunsTheOnesBelow) {
  EXPECT_TRUE(TargetRuns("x86-64-v2", "x86-64-v4"));
  EXPECT_TRUE(TargetRuns("x86-64-v3", "x86-64-v3"));
  EXPECT_FALSE(TargetRuns("x86-64-v4", "x86-64-v3"));
  EXPECT_FALSE(TargetRuns("sm_90", "x86-64-v4"));
  EXPECT_FALSE(TargetRuns("x86-64-v2", ""));
  EXPECT_TRUE(HostTarget().empty() || TargetRuns("x86-64-v2", HostTarget()));
}

}  // namespace
}  // namespace kiln
