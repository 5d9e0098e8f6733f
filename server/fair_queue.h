// The order in which jobs get a worker: by priority; within one, the compiles take turns; within a compile, first come,
// first served.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace kiln {

enum class Priority { kHigh, kNormal };  // kHigh: what ends a compile that others' jobs would only delay

// Holds pointers, owns nothing. Not thread-safe.
template <typename T>
class FairQueue {
 public:
  void PushBack(T* item, uint64_t compile, Priority priority) { Push(item, compile, priority, /*front=*/false); }

  // Ahead of the compile's other jobs, and it is the compile's turn: for a job that had its worker die under it.
  void PushFront(T* item, uint64_t compile, Priority priority) { Push(item, compile, priority, /*front=*/true); }

  // Null if there is none.
  T* Pop() {
    for (Level& level : levels_) {
      if (level.turns.empty()) continue;
      const uint64_t compile = level.turns.front();
      level.turns.pop_front();
      const auto lane = level.lanes.find(compile);
      T* item = lane->second.front();
      lane->second.pop_front();
      if (lane->second.empty()) {
        level.lanes.erase(lane);
      } else {
        level.turns.push_back(compile);
      }
      --size_;
      return item;
    }
    return nullptr;
  }

  // False if it is not there.
  bool Remove(T* item, uint64_t compile, Priority priority) {
    Level& level = levels_[static_cast<size_t>(priority)];
    const auto lane = level.lanes.find(compile);
    if (lane == level.lanes.end()) return false;
    const auto at = std::find(lane->second.begin(), lane->second.end(), item);
    if (at == lane->second.end()) return false;
    lane->second.erase(at);
    if (lane->second.empty()) {
      level.lanes.erase(lane);
      level.turns.erase(std::find(level.turns.begin(), level.turns.end(), compile));
    }
    --size_;
    return true;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Level {
    std::map<uint64_t, std::deque<T*>> lanes;  // none is empty
    std::deque<uint64_t> turns;                // each lane once, in the order of their turns
  };

  void Push(T* item, uint64_t compile, Priority priority, bool front) {
    Level& level = levels_[static_cast<size_t>(priority)];
    std::deque<T*>& lane = level.lanes[compile];
    if (front && !lane.empty()) level.turns.erase(std::find(level.turns.begin(), level.turns.end(), compile));
    if (front) {
      level.turns.push_front(compile);
    } else if (lane.empty()) {
      level.turns.push_back(compile);
    }
    front ? lane.push_front(item) : lane.push_back(item);
    ++size_;
  }

  std::array<Level, 2> levels_;
  size_t size_ = 0;
};

}  // namespace kiln
