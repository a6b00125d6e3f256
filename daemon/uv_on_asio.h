// A libuv loop that runs inside an Asio loop, so that libwebsockets shares the I/O thread.
#pragma once

#include <uv.h>

#include <boost/asio/io_context.hpp>
#include <memory>

namespace antiphon::daemon {

// I/O thread only. Waits on the loop's descriptor and its next timer; runs it when either is due.
class UvOnAsio {
 public:
  explicit UvOnAsio(boost::asio::io_context& io);
  // REQUIRES: whoever used the loop has closed his handles or is about to be served by Close.
  ~UvOnAsio();
  UvOnAsio(const UvOnAsio&) = delete;
  UvOnAsio& operator=(const UvOnAsio&) = delete;

  uv_loop_t* loop() { return &loop_; }
  // Runs the loop soon: to be called after its watchers or timers were changed from outside it,
  // because libuv tells the kernel of them only when it runs.
  void Kick();
  // Runs what is ripe, so that handles which were closed are done with.
  void Drain();
  // Runs what is ripe and gives the loop up; nothing is waited for any more.
  void Close();

 private:
  struct Waits;

  void Pump();
  void WaitReadable();

  uv_loop_t loop_{};
  std::unique_ptr<Waits> waits_;
  bool kicked_ = false, closed_ = false;
};

}  // namespace antiphon::daemon
