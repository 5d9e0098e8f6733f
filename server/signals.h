// SIGTERM and SIGINT: the first asks the daemon to leave, the second ends it at once.
#pragma once

#include <functional>
#include <thread>

namespace kiln {

// One a process, made before any other thread, so that all of them have the signals blocked.
class SignalWatcher {
 public:
  // Calls `on_first`, on a thread of its own, with the signal's number. A second signal is _exit(128 + its number).
  explicit SignalWatcher(std::function<void(int)> on_first);
  ~SignalWatcher();

 private:
  void Loop(const std::function<void(int)>& on_first);

  int signals_;  // signalfd
  int wake_;     // eventfd: readable once it is time to stop
  std::thread thread_;
};

}  // namespace kiln
