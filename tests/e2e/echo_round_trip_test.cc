// Clicks go in through /v1/voice and come back from the echo model; how long that takes from mouth
// to ear, as a client with a perfect sound card would find it.
//
// A click spoken at time t is in the packet complete up to 20 ms later. The frame that it comes
// back in is playable from its arrival on, so it is heard at arrival + its place in the frame.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <numbers>
#include <thread>

#include "cli/voice_client.h"
#include "daemon/realtime.h"
#include "daemon/voice_service.h"
#include "daemon/web_server.h"
#include "engine/engine.h"

namespace antiphon {
namespace {

constexpr int kRate = 24000;
constexpr int64_t kFrame = 1920;
constexpr int64_t kClickSamples = kRate * 4 / 1000;
constexpr int64_t kSpacing = kRate * 7 / 10 + 37;  // falls on every place within a frame

std::vector<int64_t> ClickPositions(double seconds) {
  std::vector<int64_t> positions;
  for (int64_t at = kRate; at < static_cast<int64_t>((seconds - 1.0) * kRate); at += kSpacing) {
    positions.push_back(at);
  }
  return positions;
}

std::vector<float> ClickTrain(const std::vector<int64_t>& positions) {
  std::vector<float> sound(static_cast<size_t>(positions.back() + kRate), 0.0F);
  for (const int64_t at : positions) {
    for (int64_t i = 0; i < kClickSamples; ++i) {
      const double t = static_cast<double>(i) / kRate;
      const double window = std::sin(std::numbers::pi * static_cast<double>(i) / kClickSamples);
      sound[static_cast<size_t>(at + i)] =
          static_cast<float>(0.8 * window * std::sin(2.0 * std::numbers::pi * 1200.0 * t));
    }
  }
  return sound;
}

// Where in [begin, end) a click's length of sound is loudest; -1 where it does not stand out.
int64_t FindClick(const std::vector<float>& sound, int64_t begin, int64_t end) {
  double best = 0.0, sum = 0.0;
  int64_t where = -1, steps = 0;
  for (int64_t at = begin; at + kClickSamples < end; at += 4, ++steps) {
    double energy = 0.0;
    for (int64_t i = 0; i < kClickSamples; ++i) {
      const double sample = sound[static_cast<size_t>(at + i)];
      energy += sample * sample;
    }
    sum += energy;
    if (energy > best) {
      best = energy;
      where = at;
    }
  }
  return steps > 0 && best > 6.0 * sum / static_cast<double>(steps) ? where : -1;
}

TEST(EchoRoundTripTest, MouthToEar) {
  engine::EngineOptions engine_options;
  engine_options.model = "echo";
  engine_options.slots = 1;
  const daemon::VoiceServiceOptions options;
  std::unique_ptr<engine::Engine> engine;
  {
    const daemon::RealtimeScope realtime(options.realtime_priority);
    engine = engine::MakeEngine(engine_options);
  }
  daemon::MonotonicClock clock;
  boost::asio::io_context io;
  daemon::VoiceService service(io, *engine, options, clock);
  daemon::WebServerOptions server_options;
  server_options.listen = {{"127.0.0.1", 0, false}};
  auto server = std::make_unique<daemon::WebServer>(io, server_options, service.http_routes(),
                                                    service.socket_routes());
  service.Start();
  std::thread loop([&io] {
    const auto work = boost::asio::make_work_guard(io);
    io.run();
  });

  cli::VoiceClientOptions client;
  client.url = "ws://127.0.0.1:" + std::to_string(server->ports()[0]);
  client.seconds = 20.0;
  client.keep_sound = true;
  const std::vector<int64_t> clicks = ClickPositions(client.seconds);
  client.sound = ClickTrain(clicks);
  const cli::VoiceClientReport report = cli::RunVoiceClients({client})[0];
  io.stop();
  loop.join();
  const daemon::TickStats stats = service.tick_stats();
  service.Stop();
  server.reset();
  ASSERT_EQ(report.error, "");

  // When each frame was here.
  std::map<int64_t, double> frame_ms;
  for (const cli::VoiceClientArrival& arrival : report.arrivals) {
    frame_ms.emplace(arrival.position / kFrame, static_cast<double>(arrival.at.count()) / 1e6);
  }
  std::vector<double> round_trips_ms;
  for (const int64_t click : clicks) {
    const int64_t end = std::min<int64_t>(click + kSpacing - kClickSamples,
                                          static_cast<int64_t>(report.sound.size()));
    const int64_t heard = FindClick(report.sound, click, end);
    if (heard < 0) continue;
    const auto frame = frame_ms.find(heard / kFrame);
    if (frame == frame_ms.end()) continue;
    const double heard_ms = frame->second + static_cast<double>(heard % kFrame) * 1000.0 / kRate;
    round_trips_ms.push_back(heard_ms - static_cast<double>(click) * 1000.0 / kRate);
  }
  ASSERT_GE(round_trips_ms.size(), clicks.size() * 3 / 4)
      << "frames " << stats.frames << ", late " << stats.late << ", missed " << stats.missed
      << ", tick p50 " << stats.p50_ms << " ms, max " << stats.max_ms << " ms";
  std::sort(round_trips_ms.begin(), round_trips_ms.end());
  const double median = round_trips_ms[round_trips_ms.size() / 2];
  std::printf(
      "echo round trip: median %.1f ms, %.1f to %.1f ms over %zu of %zu clicks; frames %llu, "
      "late %llu, tick p99 %.2f ms\n",
      median, round_trips_ms.front(), round_trips_ms.back(), round_trips_ms.size(), clicks.size(),
      static_cast<unsigned long long>(stats.frames), static_cast<unsigned long long>(stats.late),
      stats.p99_ms);
  // 80 ms of frame, 80 ms until its tick, 60 ms for everything else; the bound is wider so that a
  // busy machine does not fail the test.
  EXPECT_LE(median, 2 * (80.0 + 80.0 + 60.0));
}

}  // namespace
}  // namespace antiphon
