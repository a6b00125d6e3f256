#include "cli/voice_client.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cmath>
#include <filesystem>
#include <thread>

#include "audio/wav_file.h"
#include "cli/talk_url.h"
#include "daemon/voice_service.h"
#include "tests/cli/beast_front.h"
#include "tests/daemon/fake_engine.h"

namespace antiphon::cli {
namespace {

TEST(VoiceUrlTest, Parts) {
  VoiceUrl url;
  ASSERT_TRUE(ParseVoiceUrl("ws://localhost:8998", &url));
  EXPECT_FALSE(url.tls);
  EXPECT_EQ(url.host, "localhost");
  EXPECT_EQ(url.port, "8998");
  EXPECT_EQ(url.path, "/v1/voice");
  ASSERT_TRUE(ParseVoiceUrl("wss://voice.example/", &url));
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.port, "443");
  EXPECT_EQ(url.path, "/v1/voice");
  ASSERT_TRUE(ParseVoiceUrl("ws://[::1]:80/behind/proxy/v1/voice", &url));
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, "80");
  EXPECT_EQ(url.path, "/behind/proxy/v1/voice");
}

TEST(VoiceUrlTest, WhatIsNone) {
  VoiceUrl url;
  for (const char* text : {"", "ws://", "http://host", "ws:///path", "ws://host:port",
                           "ws://host:", "ws://host:123456", "host:8998"}) {
    EXPECT_FALSE(ParseVoiceUrl(text, &url)) << text;
  }
}

// A daemon's sessions over real sockets, with an engine that gives back what it hears.
class VoiceClientTest : public ::testing::Test {
 protected:
  VoiceClientTest() : engine(3) {
    engine.text_every = 5;
    daemon::VoiceServiceOptions options;
    options.realtime_priority = 0;
    service = std::make_unique<daemon::VoiceService>(io, engine, options, clock);
    front = std::make_unique<daemon::BeastFront>(io, service->socket_routes());
    url = "ws://127.0.0.1:" + std::to_string(front->port());
    service->Start();
    loop = std::thread([this] {
      auto work = boost::asio::make_work_guard(io);
      io.run();
    });
  }
  ~VoiceClientTest() override {
    io.stop();
    loop.join();
    service->Stop();
    front.reset();
  }

  VoiceClientOptions Client(double seconds) {
    VoiceClientOptions client;
    client.url = url;
    client.seconds = seconds;
    return client;
  }

  daemon::MonotonicClock clock;
  daemon::FakeEngine engine;
  boost::asio::io_context io;
  std::unique_ptr<daemon::VoiceService> service;
  std::unique_ptr<daemon::BeastFront> front;
  std::string url;
  std::thread loop;
};

TEST_F(VoiceClientTest, SaysItsSoundAndHearsIt) {
  VoiceClientOptions client = Client(3.0);
  for (int i = 0; i < 24000 * 2; ++i) {
    client.sound.push_back(0.5F * std::sin(static_cast<float>(i) * 0.1F));
  }
  client.keep_sound = true;
  std::vector<uint64_t> times;
  client.on_text = [&](uint64_t time_ms, const std::string& piece) {
    EXPECT_EQ(piece, " word");
    times.push_back(time_ms);
  };
  const VoiceClientReport report = RunVoiceClients({client})[0];
  EXPECT_TRUE(report.ready);
  EXPECT_EQ(report.error, "");
  EXPECT_EQ(report.close_code, 1000);
  EXPECT_GE(report.frames, 30U);
  EXPECT_GE(report.packets, 120U);
  ASSERT_GE(times.size(), 3U);
  EXPECT_EQ(times[0], 0U);
  EXPECT_EQ(times[1], 400U);
  double energy = 0.0;
  for (const float sample : report.sound) energy += sample * sample;
  EXPECT_NEAR(energy / (0.125 * 24000 * 2), 1.0, 0.3);
  // It comes when it is played: no sound long before or after its place on the clock.
  for (const VoiceClientArrival& arrival : report.arrivals) {
    EXPECT_GE(static_cast<double>(arrival.position) / 24.0 + 100.0,
              static_cast<double>(arrival.at.count()) / 1e6 - 1000.0);
  }
}

TEST_F(VoiceClientTest, SeveralAtOnceAndOneTooMany) {
  const std::vector<VoiceClientReport> reports =
      RunVoiceClients(std::vector<VoiceClientOptions>(4, Client(1.5)));
  int refused = 0;
  for (const VoiceClientReport& report : reports) {
    if (!report.ready) {
      ++refused;
      EXPECT_EQ(report.close_code, 1013);
      EXPECT_EQ(report.error.rfind("busy:", 0), 0U) << report.error;
    } else {
      EXPECT_EQ(report.error, "");
      EXPECT_GE(report.packets, 60U);
    }
  }
  EXPECT_EQ(refused, 1);
}

TEST_F(VoiceClientTest, FaultsAreReported) {
  VoiceClientOptions wrong_voice = Client(1.0), wrong_port = Client(1.0), wrong_path = Client(1.0),
                     no_url = Client(1.0);
  wrong_voice.voice = "nobody";
  wrong_port.url = "ws://127.0.0.1:1";
  wrong_path.url += "/nowhere";
  no_url.url = "127.0.0.1";
  const auto reports = RunVoiceClients({wrong_voice, wrong_port, wrong_path, no_url});
  EXPECT_EQ(reports[0].error.rfind("bad_option: voice:", 0), 0U) << reports[0].error;
  EXPECT_EQ(reports[1].error.rfind("connecting to 127.0.0.1:1", 0), 0U) << reports[1].error;
  EXPECT_EQ(reports[2].error.rfind("WebSocket /nowhere", 0), 0U) << reports[2].error;
  EXPECT_EQ(reports[3].error.rfind("url:", 0), 0U) << reports[3].error;
  for (const auto& report : reports) EXPECT_FALSE(report.ready);
}

TEST_F(VoiceClientTest, ADaemonThatStopsIsReported) {
  std::thread stopper([this] {
    while (engine.ticks < 10) std::this_thread::yield();
    boost::asio::post(io, [this] { service->Drain([] {}); });
  });
  const VoiceClientReport report = RunVoiceClients({Client(20.0)})[0];
  stopper.join();
  EXPECT_TRUE(report.ready);
  EXPECT_EQ(report.close_code, 1001);
  EXPECT_NE(report.error, "");
}

TEST_F(VoiceClientTest, TalkWritesTheAnswerAndCountsSessions) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("antiphon_talk_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  TalkUrlOptions options;
  options.url = url;
  options.out_wav = folder / "out.wav";
  options.sessions = 2;
  options.duration_s = 1.0;
  options.text = true;
  ::testing::internal::CaptureStdout();
  const TalkUrlResult result = TalkThroughUrl(options);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(result.failed, 0);
  EXPECT_NE(printed.find("   0.00 s  word"), std::string::npos) << printed;
  EXPECT_NE(printed.find("session 2: frames "), std::string::npos) << printed;
  const audio::Sound out = audio::ReadWav(options.out_wav);
  EXPECT_EQ(out.rate_hz, 24000);
  EXPECT_NEAR(static_cast<double>(out.frames()), 24000.0, 4000.0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace antiphon::cli
