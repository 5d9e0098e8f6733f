// A worker process that runs FakeJobs.
#include "server/testing/fake_jobs.h"
#include "server/worker_main.h"

int main(int argc, char** argv) { kiln::WorkerMain(argc, argv, kiln::FakeJobs()); }
