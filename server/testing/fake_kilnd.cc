// kilnd with FakeJobs for a compiler.
#include "server/kilnd_main.h"
#include "server/testing/fake_jobs.h"

int main(int argc, char** argv) {
  return kiln::KilndMain(argc, argv, {kiln::FakeJobs(), {"x86-64-v2", "x86-64-v3", "x86-64-v4"}, nullptr});
}
