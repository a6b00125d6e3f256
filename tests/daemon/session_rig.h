// Sessions without a network and without waiting: fake sockets, a fake engine, simulated time, and
// the real tick loop, session table, codec pool and Opus.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/session_table.h"
#include "daemon/tick_loop.h"
#include "daemon/web_server.h"
#include "tests/daemon/fake_engine.h"
#include "tests/daemon/simulated_clock.h"

namespace antiphon::daemon {

class FakeSocket final : public WebSocket {
 public:
  const ConnectionInfo& info() const override { return connection; }
  void SendBinary(std::span<const uint8_t> message) override {
    if (close_code == 0) binaries.emplace_back(message.begin(), message.end());
  }
  void SendText(std::string_view message) override {
    if (close_code == 0) texts.emplace_back(message);
  }
  size_t queued_bytes() const override { return queued; }
  void Close(uint16_t code, std::string_view reason) override {
    if (close_code != 0) return;
    close_code = code;
    close_reason = reason;
  }

  // Text messages with this in them.
  size_t Count(std::string_view part) const {
    return static_cast<size_t>(std::count_if(
        texts.begin(), texts.end(),
        [part](const std::string& text) { return text.find(part) != std::string::npos; }));
  }

  ConnectionInfo connection;
  std::vector<std::string> texts;
  std::vector<std::vector<uint8_t>> binaries;
  size_t queued = 0;
  int close_code = 0;
  std::string close_reason;
};

// Whatever the protocol: a connection and its socket.
template <class Connection>
struct FakeClient {
  FakeClient(SessionTable& table, Clock& clock)
      : connection(std::make_unique<Connection>(table, clock)) {}
  void Open() { connection->OnOpen(socket); }
  void Binary(const std::vector<uint8_t>& message) { connection->OnBinary(message); }
  void Text(std::string_view message) { connection->OnText(message); }
  // The transport is gone, as after a reset.
  void Cut() {
    connection->OnClose();
    connection.reset();
  }

  FakeSocket socket;
  std::unique_ptr<Connection> connection;
};

struct SessionRig {
  explicit SessionRig(int lanes = 2, std::chrono::seconds start_within = std::chrono::seconds(10))
      : engine(lanes, &clock),
        ticks(engine, clock, Options(lanes), -1),
        codecs(2),
        preparers(1),
        table({io, engine, clock, ticks, codecs, preparers, {}, start_within, 0, false}) {
    engine.tick_cost = std::chrono::milliseconds(5);
  }

  static TickOptions Options(int lanes) {
    TickOptions options;
    options.lanes = lanes;
    return options;
  }

  // Runs until codec pool, preparation and loop have nothing more to do.
  void Settle() {
    while (true) {
      const int pending = table.pending();
      io.restart();
      const size_t ran = io.poll();
      if (pending == 0 && ran == 0) return;
      if (ran == 0) std::this_thread::yield();
    }
  }
  // One turn of the engine's clock and what follows from it.
  void Turn() {
    ticks.Turn();
    table.OnWake();
    Settle();
  }
  void Turns(int count) {
    for (int i = 0; i < count; ++i) Turn();
  }

  SimulatedClock clock;
  FakeEngine engine;
  boost::asio::io_context io;
  TickLoop ticks;
  audio::CodecPool codecs, preparers;
  SessionTable table;
};

}  // namespace antiphon::daemon
