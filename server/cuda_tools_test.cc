#include "server/cuda_tools.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "server/testing/test_client.h"

namespace kiln {
namespace {

class CudaToolsTest : public testing::Test {
 protected:
  // A ptxas that says `version`, and a libdevice, under folder_.
  std::string Ptxas(const std::string& path, const std::string& version) {
    Write(path, "#!/bin/sh\n[ \"$1\" = --version ] && echo " + version + "\n");
    chmod(folder_.File(path).c_str(), 0700);
    return folder_.File(path);
  }
  std::string Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.File(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }
  CudaTools Find(const v1::Config::Cuda& config = {}) {
    const absl::StatusOr<CudaTools> tools = FindCudaTools(config, env_);
    EXPECT_TRUE(tools.ok()) << tools.status();
    return tools.value_or(CudaTools());
  }

  TestFolder folder_;
  CudaEnv env_;
};

TEST_F(CudaToolsTest, NothingIsNoError) {
  const CudaTools tools = Find();
  EXPECT_EQ(tools.ptxas, "");
  EXPECT_EQ(tools.libdevice, "");
  EXPECT_EQ(tools.BuildWith("0123456789ab"), "0123456789ab");
  EXPECT_EQ(tools.Describe(),
            "CUDA: no ptxas: GPUs' drivers compile the code when they load it; no libdevice: kiln's own functions (see "
            "cuda in kilnd's configuration)");
}

TEST_F(CudaToolsTest, TheConfigurationComesFirst) {
  v1::Config::Cuda config;
  config.set_ptxas(Ptxas("mine/ptxas", "one"));
  config.set_libdevice(Write("mine/libdevice.bc", "bitcode"));
  Ptxas("home/bin/ptxas", "two");
  env_.cuda_home = folder_.File("home");
  const CudaTools tools = Find(config);
  EXPECT_EQ(tools.ptxas, config.ptxas());
  EXPECT_EQ(tools.ptxas_version, "one\n");
  EXPECT_EQ(tools.libdevice_path, config.libdevice());
  EXPECT_EQ(tools.libdevice, "bitcode");
  EXPECT_EQ(tools.Describe(), "CUDA: " + config.ptxas() + "; " + config.libdevice());
}

TEST_F(CudaToolsTest, ConfiguredPathsMustBeThere) {
  v1::Config::Cuda config;
  config.set_ptxas("/no/ptxas");
  EXPECT_EQ(FindCudaTools(config, env_).status(),
            absl::InvalidArgumentError("config: cuda.ptxas: /no/ptxas does not run"));
  config.clear_ptxas();
  config.set_libdevice("/no/libdevice");
  EXPECT_EQ(FindCudaTools(config, env_).status(),
            absl::InvalidArgumentError("config: cuda.libdevice: cannot read /no/libdevice"));
}

TEST_F(CudaToolsTest, CudaHomeThenThePathThenPackagesThenTheUsualPlace) {
  const std::string usual = Ptxas("usual/bin/ptxas", "usual");
  env_.usual_home = folder_.File("usual");
  EXPECT_EQ(Find().ptxas, usual);
  env_.program = folder_.File("venv/bin/kilnd");
  const std::string triton = Ptxas("venv/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas", "triton");
  EXPECT_EQ(Find().ptxas, triton);
  const std::string package = Ptxas("venv/lib/python3.12/site-packages/nvidia/cu13/bin/ptxas", "package");
  Ptxas("venv/lib/python3.12/site-packages/nvidia/cu12/bin/ptxas", "old");
  EXPECT_EQ(Find().ptxas, package);
  const std::string on_path = Ptxas("toolkit/bin/ptxas", "path");
  env_.path = "/nowhere:" + folder_.File("toolkit/bin");
  EXPECT_EQ(Find().ptxas, on_path);
  const std::string home = Ptxas("home/bin/ptxas", "home");
  env_.cuda_home = folder_.File("home");
  EXPECT_EQ(Find().ptxas, home);
}

TEST_F(CudaToolsTest, EachIsLookedForByItself) {
  Ptxas("home/bin/ptxas", "home");
  env_.cuda_home = folder_.File("home");
  env_.usual_home = folder_.File("usual");
  const std::string libdevice = Write("usual/nvvm/libdevice/libdevice.10.bc", "bitcode");
  EXPECT_EQ(Find().libdevice_path, libdevice);
}

TEST_F(CudaToolsTest, AnotherVersionIsAnotherBuild) {
  CudaTools one{.ptxas = "/a", .ptxas_version = "13.0", .libdevice_path = "", .libdevice = ""};
  CudaTools moved = one, newer = one, with_libdevice = one;
  moved.ptxas = "/b";
  newer.ptxas_version = "13.1";
  with_libdevice.libdevice = "bitcode";
  const std::string build = one.BuildWith("0123456789ab");
  EXPECT_EQ(build.size(), 12u);
  EXPECT_EQ(moved.BuildWith("0123456789ab"), build);
  EXPECT_NE(newer.BuildWith("0123456789ab"), build);
  EXPECT_NE(with_libdevice.BuildWith("0123456789ab"), build);
  EXPECT_NE(one.BuildWith("0123456789ac"), build);
}

}  // namespace
}  // namespace kiln
