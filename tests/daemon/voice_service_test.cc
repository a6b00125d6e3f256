// The facade with its real clock, threads and wake descriptor; only the sockets and the engine are
// fakes.
#include "daemon/voice_service.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/voice_connection.h"
#include "engine/error.h"
#include "tests/daemon/fake_engine.h"
#include "tests/daemon/session_rig.h"

namespace antiphon::daemon {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class VoiceServiceTest : public ::testing::Test {
 protected:
  VoiceServiceTest() : engine(2) {
    options.codec_threads = 2;
    options.realtime_priority = 0;
    service = std::make_unique<VoiceService>(io, engine, options, clock);
    routes = service->socket_routes();
    for (HttpRoute& route : service->http_routes()) http[route.path] = route.respond;
  }

  struct Client {
    FakeSocket socket;
    std::unique_ptr<WebSocketHandler> handler;
  };
  std::unique_ptr<Client> Connect(size_t route) {
    auto client = std::make_unique<Client>();
    client->handler = routes.at(route).make_handler(client->socket.connection);
    client->handler->OnOpen(client->socket);
    return client;
  }
  // Runs the loop until `done` holds; a failure after 20 s.
  bool RunUntil(const std::function<bool()>& done) {
    const Time end = clock.Now() + 20s;
    while (!done()) {
      if (clock.Now() > end) return false;
      io.restart();
      io.run_one_for(10ms);
    }
    return true;
  }
  HttpResponse Get(const std::string& path) { return http.at(path)(ConnectionInfo()); }

  MonotonicClock clock;
  FakeEngine engine;
  boost::asio::io_context io;
  VoiceServiceOptions options;
  std::unique_ptr<VoiceService> service;
  std::vector<WebSocketRoute> routes;
  std::map<std::string, std::function<HttpResponse(const ConnectionInfo&)>> http;
};

TEST_F(VoiceServiceTest, RoutesAreTheDocumentedOnes) {
  ASSERT_EQ(routes.size(), 2U);
  EXPECT_EQ(routes[0].path, "/v1/voice");
  EXPECT_EQ(routes[0].sub_protocol, "antiphon.v1");
  EXPECT_EQ(routes[0].max_message_bytes, 65536U);
  EXPECT_EQ(routes[1].path, "/api/chat");
  EXPECT_EQ(routes[1].sub_protocol, "");
}

TEST_F(VoiceServiceTest, BothProtocolsTalkAtOnceUntilTheDrain) {
  EXPECT_EQ(Get("/healthz").status, 503) << "no ticks yet";
  service->Start();
  ASSERT_TRUE(RunUntil([&] { return Get("/healthz").status == 200; }));
  EXPECT_EQ(Get("/readyz").status, 200);

  const auto voice = Connect(0), chat = Connect(1), extra = Connect(0);
  EXPECT_EQ(extra->socket.close_code, 1013);
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_EQ(Get("/readyz").body, "busy\n");
  voice->handler->OnText(R"({"type":"start"})");
  ASSERT_TRUE(RunUntil([&] {
    voice->handler->OnBinary(std::vector<uint8_t>{1});
    return voice->socket.binaries.size() >= 40 && chat->socket.binaries.size() >= 40;
  }));

  const json info = json::parse(Get("/v1/info").body);
  EXPECT_EQ(info["model"]["name"], "fake");
  EXPECT_EQ(info["model"]["voices"].size(), 2U);
  EXPECT_EQ(info["slots"], (json{{"total", 2}, {"used", 2}, {"free", 0}}));
  EXPECT_GE(info["ticks"]["ticks"], 10);
  EXPECT_GE(info["ticks"]["frames"], 20);
  EXPECT_TRUE(info["ticks"]["p999_ms"].is_number());
  EXPECT_EQ(info["sessions"]["refused"], 1);

  bool drained = false;
  service->Drain([&] { drained = true; });
  EXPECT_EQ(Get("/readyz").body, "draining\n");
  ASSERT_TRUE(RunUntil([&] { return drained; }));
  EXPECT_EQ(voice->socket.close_code, 1001);
  EXPECT_EQ(chat->socket.close_code, 1001);
  EXPECT_EQ(service->open_sessions(), 0U);
  EXPECT_EQ(engine.leaves, 2);
  service->Stop();
  const int ticks = engine.ticks;
  EXPECT_EQ(engine.ticks, ticks);
}

TEST_F(VoiceServiceTest, SlotsComeBackAndAreUsedAgain) {
  service->Start();
  for (int round = 0; round < 6; ++round) {
    const auto client = Connect(static_cast<size_t>(round % 2));
    if (round % 2 == 0) client->handler->OnText(R"({"type":"start"})");
    ASSERT_TRUE(RunUntil([&] { return client->socket.binaries.size() >= 6; })) << round;
    client->handler->OnClose();
    const Time closed = clock.Now();
    ASSERT_TRUE(RunUntil([&] { return json::parse(Get("/v1/info").body)["slots"]["free"] == 2; }));
    EXPECT_LT(clock.Now() - closed, 1s);
  }
  EXPECT_EQ(engine.joins, 6);
}

TEST_F(VoiceServiceTest, ADrainWithGraceLetsConversationsEndByThemselves) {
  options.drain_grace = std::chrono::minutes(10);
  service = std::make_unique<VoiceService>(io, engine, options, clock);
  routes = service->socket_routes();
  service->Start();
  const auto client = Connect(1);
  ASSERT_TRUE(RunUntil([&] { return client->socket.binaries.size() >= 6; }));
  bool drained = false;
  service->Drain([&] { drained = true; });
  const size_t before = client->socket.binaries.size();
  ASSERT_TRUE(RunUntil([&] { return client->socket.binaries.size() >= before + 8; }));
  EXPECT_FALSE(drained);
  EXPECT_EQ(client->socket.close_code, 0);
  client->handler->OnClose();
  EXPECT_TRUE(RunUntil([&] { return drained; }));
}

TEST_F(VoiceServiceTest, StopsInTheMiddleOfConversations) {
  service->Start();
  const auto client = Connect(1);
  ASSERT_TRUE(RunUntil([&] { return client->socket.binaries.size() >= 10; }));
  service->Stop();
  EXPECT_EQ(client->socket.close_code, 1001);
}

TEST(VoiceServiceOptionsTest, TakesOnlyEnginesOfOurFrame) {
  MonotonicClock clock;
  boost::asio::io_context io;
  FakeEngine engine(1);
  engine.mutable_info().frame_samples = 960;
  EXPECT_THROW(VoiceService(io, engine, {}, clock), InputError);
  engine.mutable_info().frame_samples = 1920;
  VoiceServiceOptions options;
  options.max_sessions = -1;
  EXPECT_THROW(VoiceService(io, engine, options, clock), InputError);
}

}  // namespace
}  // namespace antiphon::daemon
