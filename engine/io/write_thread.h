// Does one piece of work at a time, such as writing a file, on its own thread if the system provides one. An
// error is kept until the next work is given.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace recollect {

class WriteThread {
 public:
  WriteThread() {
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (const std::exception&) {
      // A model must not be lost because no thread is available: give() does the work then.
    }
  }
  ~WriteThread() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    news_.notify_all();
    thread_.join();
  }
  WriteThread(const WriteThread&) = delete;
  WriteThread& operator=(const WriteThread&) = delete;

  // Call it only when idle. `work` must live until the thread is idle again.
  void give(const std::function<void()>& work) {
    if (!thread_.joinable()) {
      failure_ = failure_of(work);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      failure_ = nullptr;
      work_ = &work;
    }
    news_.notify_all();
  }
  bool idle_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return news_.wait_for(lock, time, [&] { return work_ == nullptr; });
  }
  // Only when idle.
  const std::exception_ptr& failure() const { return failure_; }

 private:
  static std::exception_ptr failure_of(const std::function<void()>& work) {
    try {
      work();
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      news_.wait(lock, [&] { return ended_ || work_ != nullptr; });
      if (work_ == nullptr) return;
      lock.unlock();
      const std::exception_ptr failure = failure_of(*work_);
      lock.lock();
      failure_ = failure;
      work_ = nullptr;
      news_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable news_;
  const std::function<void()>* work_ = nullptr;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses all the other members
};

}  // namespace recollect
