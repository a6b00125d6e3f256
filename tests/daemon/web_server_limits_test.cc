// The web server at its edges: TLS, IPv6, connections beyond the limit, unknown sub-protocols,
// requests that are too long or never end.
#include <boost/asio/ssl.hpp>
#include <boost/beast/ssl.hpp>
#include <filesystem>

#include "daemon/tls_certificate.h"
#include "tests/daemon/web_server_rig.h"
#include "tests/engine/model_folder.h"

namespace antiphon::daemon {
namespace {

namespace ssl = asio::ssl;

class WebServerLimitsTest : public WebServerTest {
 protected:
  void SetUp() override {}  // each test starts its own

  void StartAt(const std::string& address, bool tls = false) {
    options_.listen = {{address, 0, tls}};
    Start(options_);
  }

  WebServerOptions options_;
};

class WebServerTlsTest : public WebServerLimitsTest {
 protected:
  void SetUp() override {
    const CertificateFiles files = SelfSignedCertificate(folder_.str());
    options_.certificate_file = files.certificate;
    options_.private_key_file = files.private_key;
    trust_.load_verify_file(files.certificate);
    trust_.set_verify_mode(ssl::verify_peer);
    StartAt("127.0.0.1", true);
  }

  // A stream whose handshake has verified the certificate and its name.
  ssl::stream<tcp::socket> Secure() {
    ssl::stream<tcp::socket> stream(Connect(), trust_);
    stream.set_verify_callback(ssl::host_name_verification("localhost"));
    stream.handshake(ssl::stream_base::client);
    return stream;
  }

  engine::TempFolder folder_;
  ssl::context trust_{ssl::context::tls_client};
};

TEST_F(WebServerTlsTest, HttpsAnswersToTheSelfSignedCertificate) {
  ssl::stream<tcp::socket> stream = Secure();
  http::request<http::empty_body> request(http::verb::get, "/large", 11);
  request.set(http::field::host, "localhost");
  http::write(stream, request);
  beast::flat_buffer buffer;
  http::response<http::string_body> response;
  http::read(stream, buffer, response);
  EXPECT_EQ(response.result_int(), 200U);
  EXPECT_EQ(response.body(), std::string(300000, 'x'));
}

TEST_F(WebServerTlsTest, WebSocketsGoThroughTls) {
  websocket::stream<ssl::stream<tcp::socket>> socket(Secure());
  socket.handshake("localhost", "/any");
  socket.binary(true);
  // More than a TLS record: what OpenSSL holds back must be asked for again.
  for (const size_t size : {1UL, 16384UL, 16385UL, 65536UL}) {
    const std::string message(size, 'm');
    socket.write(asio::buffer(message));
    beast::flat_buffer buffer;
    socket.read(buffer);
    EXPECT_EQ(beast::buffers_to_string(buffer.data()), message) << size;
  }
  EXPECT_TRUE(OnLoop([this] { return seen_.info.secure; }));
  // The server may have hung up before the client has shut down its side of TLS.
  boost::system::error_code ignored;
  socket.close(websocket::close_code::normal, ignored);
  EXPECT_TRUE(Eventually([this] { return seen_.closed == 1; }));
}

TEST_F(WebServerTlsTest, PlainHttpOnATlsPortEndsThatConnectionOnly) {
  EXPECT_THAT(Raw("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"),
              testing::Not(testing::HasSubstr("200 OK")));
  ssl::stream<tcp::socket> stream = Secure();
  EXPECT_TRUE(stream.lowest_layer().is_open());
}

TEST_F(WebServerLimitsTest, Ipv6LoopbackIsServed) {
  asio::io_context probe_io;
  tcp::acceptor probe(probe_io);
  boost::system::error_code error;
  probe.open(tcp::v6());
  probe.bind({asio::ip::make_address("::1"), 0}, error);
  if (error) GTEST_SKIP() << "no IPv6 loopback here";
  StartAt("::1");
  tcp::socket raw(client_io_);
  raw.connect({asio::ip::make_address("::1"), port_});
  Socket socket(std::move(raw));
  socket.handshake("[::1]", "/any");
  socket.write(asio::buffer(std::string("six")));
  EXPECT_EQ(Read(socket), "six");
  EXPECT_EQ(OnLoop([this] { return seen_.info.remote_address; }), "::1");
}

TEST_F(WebServerLimitsTest, ConnectionsBeyondTheLimitAreTold) {
  options_.max_connections = 2;
  StartAt("127.0.0.1");
  Socket first = Open("/any");
  {
    Socket second = Open("/any");
    const std::string answer = Raw("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(answer, testing::HasSubstr("\r\nRetry-After: 2\r\n"));
    EXPECT_THAT(answer, testing::EndsWith("\r\n\r\nall connections are taken\n"));
    const size_t length = std::stoul(answer.substr(answer.find("Content-Length: ") + 16));
    EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, length);
    Socket third(Connect());
    websocket::response_type response;
    boost::system::error_code error;
    third.handshake(response, "localhost", "/any", error);
    EXPECT_EQ(response.result_int(), 503U);
    first.write(asio::buffer(std::string("still here")));
    EXPECT_EQ(Read(first), "still here");
  }
  EXPECT_TRUE(Eventually([this] { return seen_.closed == 1; }));
  Socket next = Open("/any");  // its place is free again
  next.write(asio::buffer(std::string("in")));
  EXPECT_EQ(Read(next), "in");
}

TEST_F(WebServerLimitsTest, UnknownSubProtocolsAloneAreRefusedInWords) {
  StartAt("127.0.0.1");
  const std::string upgrade =
      "GET /any HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
      "Sec-WebSocket-Protocol: chat, other\r\n\r\n";
  tcp::socket raw = Connect();
  asio::write(raw, asio::buffer(upgrade));
  beast::flat_buffer buffer;
  http::response<http::string_body> response;
  http::read(raw, buffer, response);
  EXPECT_EQ(response.result_int(), 400U);
  EXPECT_EQ(response.body(), "expected no Sec-WebSocket-Protocol, found unknown ones only\n");
  Socket known = Open("/any", "chat, antiphon.v1");
  known.write(asio::buffer(std::string("x")));
  EXPECT_EQ(Read(known), "x");
}

TEST_F(WebServerLimitsTest, LongAddressesAndHeadersEndTheirConnectionOnly) {
  StartAt("127.0.0.1");
  for (const std::string& request :
       {"GET /" + std::string(100000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /hello?a=" + std::string(20000, '%') + " HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /hello HTTP/1.1\r\n" + std::string(20000, 'n') + ": x\r\n\r\n",
        "GET /hello HTTP/1.1\r\nCookie: " + std::string(20000, 'c') + "\r\n\r\n"}) {
    tcp::socket socket = Connect();
    boost::system::error_code error;
    asio::write(socket, asio::buffer(request), error);
    std::string answer;
    asio::read(socket, asio::dynamic_buffer(answer), error);
    EXPECT_THAT(answer, testing::Not(testing::HasSubstr("200 OK"))) << request.substr(0, 30);
  }
  EXPECT_THAT(Raw("GET /hello?a=" + std::string(1000, 'v') +
                  " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              testing::HasSubstr("|a=" + std::string(1000, 'v')));
}

TEST_F(WebServerLimitsTest, RequestsThatDoNotGoOnAreCut) {
  options_.idle_timeout_s = 1;
  StartAt("127.0.0.1");
  Socket open = Open("/any");
  // Raw returns when the server has closed.
  EXPECT_EQ(Raw(""), "");
  EXPECT_THAT(Raw("GET /hello HTTP/1.1\r\nHos"), testing::Not(testing::HasSubstr("200 OK")));
  open.write(asio::buffer(std::string("not idle: a WebSocket has its pings")));
  EXPECT_EQ(Read(open), "not idle: a WebSocket has its pings");
}

}  // namespace
}  // namespace antiphon::daemon
