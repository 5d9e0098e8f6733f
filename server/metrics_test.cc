#include "server/metrics.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kiln {
namespace {

Snapshot Now() {
  Snapshot now;
  now.stats.mutable_totals()->set_hits(3);
  now.stats.mutable_totals()->set_misses(2);
  now.stats.mutable_totals()->set_kernels(10);
  now.stats.mutable_totals()->set_kernel_hits(4);
  now.stats.mutable_totals()->set_seconds_saved(1.5);
  now.stats.set_bytes(4096);
  now.status.add_workers()->set_state("busy");
  now.status.add_workers()->set_state("idle");
  now.status.add_workers()->set_state("idle");
  return now;
}

void ExpectLine(const std::string& text, const std::string& line) {
  EXPECT_NE(text.find(line + "\n"), std::string::npos) << "no line " << line << " in\n" << text;
}

TEST(Metrics, NamesUnitsAndValues) {
  Metrics metrics("0123456789ab", "0.1.0");
  metrics.Request("Compile", "OK", absl::Milliseconds(3));
  metrics.Request("Compile", "OK", absl::Milliseconds(300));
  metrics.Job("plan", "ok", absl::Seconds(2));
  metrics.CacheError("lookup");
  metrics.Called("GetBlob", absl::StatusCode::kNotFound, absl::Milliseconds(1));
  metrics.Moved("Publish", 77);
  const std::string text = metrics.Text(Now);
  ExpectLine(text, "kiln_build_info{build=\"0123456789ab\",version=\"0.1.0\"} 1");
  ExpectLine(text, "kiln_requests_total{code=\"OK\",method=\"Compile\"} 2");
  ExpectLine(text, "kiln_request_seconds_bucket{method=\"Compile\",le=\"0.005\"} 1");
  ExpectLine(text, "kiln_request_seconds_count{method=\"Compile\"} 2");
  ExpectLine(text, "kiln_jobs_total{job=\"plan\",outcome=\"ok\"} 1");
  ExpectLine(text, "kiln_job_seconds_sum{job=\"plan\"} 2");
  ExpectLine(text, "kiln_cache_errors_total{operation=\"lookup\"} 1");
  ExpectLine(text, "kiln_store_calls_total{code=\"NOT_FOUND\",op=\"GetBlob\"} 1");
  ExpectLine(text, "kiln_store_moved_bytes_total{op=\"Publish\"} 77");
  ExpectLine(text, "kiln_lookups_total{result=\"hit\"} 3");
  ExpectLine(text, "kiln_lookups_total{result=\"miss\"} 2");
  ExpectLine(text, "kiln_kernels_total{result=\"compiled\"} 6");
  ExpectLine(text, "kiln_worker_saved_seconds_total 1.5");
  ExpectLine(text, "kiln_store_bytes 4096");
  ExpectLine(text, "kiln_workers{state=\"idle\"} 2");
}

// The body of GET /metrics.
std::string Get(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) reply.append(buffer, static_cast<size_t>(n));
  close(fd);
  return reply;
}

TEST(MetricsServer, ServesBothSources) {
  Metrics metrics("b", "v");
  const std::unique_ptr<MetricsServer> server = MetricsServer::Start("127.0.0.1:0", metrics, Now).value();
  const std::string reply = Get(server->port());
  EXPECT_NE(reply.find("kiln_build_info{build=\"b\",version=\"v\"} 1"), std::string::npos) << reply;
  EXPECT_NE(reply.find("kiln_store_bytes 4096"), std::string::npos) << reply;
}

TEST(MetricsServer, BadAddressIsAnError) {
  Metrics metrics("b", "v");
  EXPECT_EQ(MetricsServer::Start("nowhere:x", metrics, Now).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kiln
