#include "server/signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace kiln {

SignalWatcher::SignalWatcher(std::function<void(int)> on_first) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this, f = std::move(on_first)] { Loop(f); });
}

void SignalWatcher::Loop(const std::function<void(int)>& on_first) {
  bool first = true;
  while (true) {
    pollfd fds[] = {{signals_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof info) != sizeof info) continue;
    const int number = static_cast<int>(info.ssi_signo);
    if (!first) _exit(128 + number);
    first = false;
    on_first(number);
  }
}

SignalWatcher::~SignalWatcher() {
  const uint64_t one = 1;
  if (write(wake_, &one, sizeof one) == sizeof one) thread_.join();
  close(signals_);
  close(wake_);
}

}  // namespace kiln
