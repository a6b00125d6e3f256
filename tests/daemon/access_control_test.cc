// Keys, origins and hosts: the decision, and the same through real sockets with the real service.
#include "daemon/access_control.h"

#include <gtest/gtest.h>

#include "engine/error.h"
#include "tests/daemon/service_rig.h"

namespace antiphon::daemon {
namespace {

using Refusal = AccessDecision::Refusal;
using namespace std::chrono_literals;

Key NewKey(const std::string& name, const std::string& words, std::string* text) {
  *text = MakeKeyText();
  return ParseKey(FormatKey(name, words, *text));
}

TEST(Credentials, FindsAKeyByItsTextOnly) {
  std::string talk, metrics;
  const Credentials credentials(
      {NewKey("phone", "talk+last", &talk), NewKey("prometheus", "metrics", &metrics)});
  ASSERT_NE(credentials.Find(talk), nullptr);
  EXPECT_EQ(credentials.Find(talk)->name, "phone");
  EXPECT_EQ(credentials.Find(talk)->priority, Priority::kLast);
  EXPECT_EQ(credentials.Find(metrics)->name, "prometheus");
  EXPECT_EQ(credentials.Find(talk + "x"), nullptr);
  EXPECT_EQ(credentials.Find(""), nullptr);
  EXPECT_EQ(talk.size(), 43U);
  EXPECT_NE(talk, metrics);
}

TEST(Credentials, FaultsNameTheKeyAndNeverItsHash) {
  const std::string hash(64, 'a');
  for (const std::string& text : std::initializer_list<std::string>{
           "", "phone", "phone:talk", ":talk:" + hash, "ph one:talk:" + hash, "phone:fly:" + hash,
           "phone::" + hash, "phone:talk:abc", "phone:talk:" + std::string(64, 'g')}) {
    try {
      ParseKey(text);
      FAIL() << text;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find("aaaa"), std::string::npos);
    }
  }
}

class AccessControlTest : public ::testing::Test {
 protected:
  AccessControlTest() {
    options.keys = {NewKey("phone", "talk", &talk), NewKey("prometheus", "metrics", &metrics)};
    options.origins = {"https://voice.example.org"};
  }
  Refusal Ask(AccessRequest request, Right right = Right::kTalk, bool socket = true) {
    return AccessControl(options).Check(request, right, socket).refusal;
  }
  AccessOptions options;
  std::string talk, metrics;
};

TEST_F(AccessControlTest, LoopbackNeedsNothingOthersNeedAKeyWithTheRight) {
  EXPECT_EQ(Ask({"127.0.0.1", "", "localhost:8998", ""}), Refusal::kNone);
  EXPECT_EQ(Ask({"::1", "", "[::1]:8998", ""}), Refusal::kNone);
  EXPECT_EQ(Ask({"::ffff:127.0.0.1", "", "127.0.0.1", ""}), Refusal::kNone);
  EXPECT_EQ(Ask({"192.0.2.7", "", "192.0.2.1", ""}), Refusal::kKey);
  EXPECT_EQ(Ask({"192.0.2.7", "", "192.0.2.1", "wrong"}), Refusal::kKey);
  EXPECT_EQ(Ask({"192.0.2.7", "", "192.0.2.1", talk}), Refusal::kNone);
  EXPECT_EQ(Ask({"192.0.2.7", "", "192.0.2.1", talk}, Right::kMetrics, false), Refusal::kRight);
  EXPECT_EQ(Ask({"192.0.2.7", "", "192.0.2.1", metrics}, Right::kMetrics, false), Refusal::kNone);
  EXPECT_EQ(Ask({"192.0.2.7", "", "192.0.2.1", metrics}, Right::kAny, false), Refusal::kNone);
  EXPECT_EQ(Ask({"192.0.2.7", "", "192.0.2.1", ""}, Right::kNone, false), Refusal::kNone);
  options.loopback_needs_key = true;
  EXPECT_EQ(Ask({"127.0.0.1", "", "localhost", ""}), Refusal::kKey);
}

TEST_F(AccessControlTest, HostilePagesAreRefusedOnLoopbackToo) {
  EXPECT_EQ(Ask({"127.0.0.1", "https://evil.example", "127.0.0.1:8998", ""}), Refusal::kOrigin);
  EXPECT_EQ(Ask({"127.0.0.1", "null", "127.0.0.1:8998", ""}), Refusal::kOrigin);
  EXPECT_EQ(Ask({"127.0.0.1", "http://127.0.0.1:8998", "127.0.0.1:8998", ""}), Refusal::kNone);
  EXPECT_EQ(Ask({"127.0.0.1", "http://127.0.0.1:1234", "127.0.0.1:8998", ""}), Refusal::kOrigin);
  // A name that the attacker made to point at us: Origin and Host agree.
  EXPECT_EQ(Ask({"127.0.0.1", "http://evil.example", "evil.example", ""}), Refusal::kOrigin);
  EXPECT_EQ(Ask({"127.0.0.1", "", "evil.example", ""}, Right::kAny, false), Refusal::kOrigin);
  EXPECT_EQ(Ask({"127.0.0.1", "https://voice.example.org", "voice.example.org", ""}),
            Refusal::kNone);
  EXPECT_EQ(Ask({"192.0.2.7", "https://box.local", "box.local", talk}), Refusal::kNone);
}

// Keys asked for on loopback too, so that sockets of this machine stand for those of another.
class GuardedServiceTest : public AccessControlTest {
 protected:
  void Start() {
    options.loopback_needs_key = true;
    WebServerOptions front;
    front.access = options;
    front.idle_timeout_s = 1;
    VoiceServiceOptions service;
    service.front = front.counters;
    rig = std::make_unique<ServiceRig>(2, service, front);
    rig->OnLoop([&] { rig->service->Start(); });
  }
  std::unique_ptr<ServiceRig> rig;
};

TEST_F(GuardedServiceTest, RoutesAskForTheirRights) {
  Start();
  EXPECT_NE(rig->Get("/healthz").status, 401);
  EXPECT_NE(rig->Get("/readyz").status, 401);
  EXPECT_EQ(rig->Get("/metrics").status, 401);
  EXPECT_EQ(rig->Get("/metrics").headers.at("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(rig->Get("/metrics", "Bearer wrong").status, 401);
  EXPECT_EQ(rig->Get("/metrics", "Bearer " + talk).status, 403);
  EXPECT_EQ(rig->Get("/v1/info").status, 401);
  EXPECT_EQ(rig->Get("/v1/info", "Bearer " + talk).status, 200);
  const HttpAnswer page = rig->Get("/metrics", "Bearer " + metrics);
  EXPECT_EQ(page.status, 200);
  EXPECT_NE(page.body.find("antiphon_front_refusals_total{reason=\"key\"} 4"), std::string::npos);
  EXPECT_NE(page.body.find("antiphon_front_refusals_total{reason=\"right\"} 1"), std::string::npos);
}

TEST_F(GuardedServiceTest, CallersBringTheKeyInAHeaderASubProtocolOrTheQuery) {
  Start();
  EXPECT_THROW(VoiceTestClient(*rig, "/v1/voice"), boost::system::system_error);
  EXPECT_THROW(VoiceTestClient(*rig, "/api/chat"), boost::system::system_error);
  EXPECT_EQ(VoiceTestClient(*rig, "/v1/voice", "Bearer " + talk).Await("hello")["type"], "hello");
  EXPECT_EQ(VoiceTestClient(*rig, "/v1/voice?key=" + talk).Await("hello")["type"], "hello");
  const auto with_protocols = [&](const std::string& protocols, const std::string& origin) {
    VoiceTestClient::Stream stream(rig->Connect());
    stream.set_option(boost::beast::websocket::stream_base::decorator(
        [=](boost::beast::websocket::request_type& request) {
          request.set(boost::beast::http::field::sec_websocket_protocol, protocols);
          if (!origin.empty()) request.set(boost::beast::http::field::origin, origin);
        }));
    stream.handshake("localhost", "/v1/voice");
    return stream;
  };
  const std::string page = "http://localhost";
  auto stream = with_protocols("antiphon.v1, antiphon.key." + talk, page);
  boost::beast::flat_buffer buffer;
  stream.read(buffer);
  EXPECT_NE(boost::beast::buffers_to_string(buffer.data()).find("\"hello\""), std::string::npos);
  // A page cannot see why an upgrade failed, so it is told on the open socket.
  auto refused = with_protocols("antiphon.v1", page);
  buffer.clear();
  refused.read(buffer);
  EXPECT_NE(boost::beast::buffers_to_string(buffer.data()).find("\"unauthorized\""),
            std::string::npos);
  boost::system::error_code error;
  refused.read(buffer, error);
  EXPECT_EQ(refused.reason().code, 1008);
  EXPECT_THROW(with_protocols("antiphon.v1, antiphon.key." + talk, "https://evil.example"),
               boost::system::system_error);
}

TEST_F(GuardedServiceTest, ConversationsOfOneAddressAreLimited) {
  VoiceServiceOptions service;
  service.max_per_address = 1;
  service.limit_loopback = true;
  rig = std::make_unique<ServiceRig>(3, service);
  rig->OnLoop([&] { rig->service->Start(); });
  VoiceTestClient first(*rig);
  EXPECT_EQ(first.Await("hello")["type"], "hello");
  VoiceTestClient second(*rig);
  EXPECT_EQ(second.Await("error")["code"], "busy");
  EXPECT_EQ(second.AwaitEnd().code, 1013);
  EXPECT_NE(rig->Get("/metrics").body.find("antiphon_refusals_total{reason=\"address\"} 1"),
            std::string::npos);
}

TEST(FrontLimits, ConnectionsOfOneAddressAreLimited) {
  WebServerOptions front;
  front.max_connections_per_address = 2;
  front.limit_loopback = true;
  ServiceRig rig(1, {}, front);
  const auto first = rig.Connect(), second = rig.Connect();
  ASSERT_TRUE(rig.Eventually([&] { return rig.Get("/healthz").status == 503; }));
  EXPECT_EQ(front.counters->address, rig.OnLoop([&] { return front.counters->address; }));
  EXPECT_GE(rig.OnLoop([&] { return front.counters->address; }), 1U);
}

}  // namespace
}  // namespace antiphon::daemon
