#include "daemon/uv_on_asio.h"

#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "engine/error.h"

namespace antiphon::daemon {

namespace asio = boost::asio;

struct UvOnAsio::Waits {
  explicit Waits(asio::io_context& context) : io(context), descriptor(context), timer(context) {}
  asio::io_context& io;
  asio::posix::stream_descriptor descriptor;
  asio::steady_timer timer;
  // Completions that come after we are gone find this empty.
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

UvOnAsio::UvOnAsio(asio::io_context& io) : waits_(std::make_unique<Waits>(io)) {
  if (uv_loop_init(&loop_) != 0) throw InputError("event loop: no file descriptor left");
  // Our own descriptor of the same epoll set, so that each side may close its own.
  waits_->descriptor.assign(dup(uv_backend_fd(&loop_)));
  WaitReadable();
}

UvOnAsio::~UvOnAsio() { Close(); }

void UvOnAsio::Kick() {
  if (kicked_ || closed_) return;
  kicked_ = true;
  asio::post(waits_->io, [this, alive = std::weak_ptr<bool>(waits_->alive)] {
    if (alive.expired()) return;
    kicked_ = false;
    Pump();
  });
}

void UvOnAsio::Close() {
  if (closed_) return;
  closed_ = true;
  waits_->alive.reset();
  waits_->descriptor.close();
  waits_->timer.cancel();
  Drain();
  uv_loop_close(&loop_);
}

void UvOnAsio::Drain() {
  // Closing handles take a turn each to finish; a few turns are enough for any chain of them.
  constexpr int kTurns = 16;
  for (int turn = 0; turn < kTurns && uv_run(&loop_, UV_RUN_NOWAIT) != 0; ++turn) {
  }
}

void UvOnAsio::WaitReadable() {
  waits_->descriptor.async_wait(
      asio::posix::stream_descriptor::wait_read,
      [this, alive = std::weak_ptr<bool>(waits_->alive)](const boost::system::error_code& error) {
        if (error || alive.expired()) return;
        Pump();
        if (!alive.expired()) WaitReadable();
      });
}

void UvOnAsio::Pump() {
  const std::weak_ptr<bool> alive = waits_->alive;
  uv_run(&loop_, UV_RUN_NOWAIT);
  if (alive.expired()) return;
  // Watchers that callbacks changed are queued until the next run (libuv's public loop fields).
  const bool unregistered = loop_.watcher_queue[0] != static_cast<void*>(&loop_.watcher_queue);
  const int timeout_ms = uv_backend_timeout(&loop_);
  if (unregistered || timeout_ms == 0) {
    Kick();
    return;
  }
  if (timeout_ms < 0) {
    waits_->timer.cancel();
    return;
  }
  waits_->timer.expires_after(std::chrono::milliseconds(timeout_ms));
  waits_->timer.async_wait([this, alive](const boost::system::error_code& error) {
    if (!error && !alive.expired()) Pump();
  });
}

}  // namespace antiphon::daemon
