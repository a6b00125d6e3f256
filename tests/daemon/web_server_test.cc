// The web server with real sockets on free ports; the client is Boost.Beast, on a thread of its
// own.
#include "daemon/web_server.h"

#include <dirent.h>

#include <algorithm>
#include <cstdio>

#include "tests/daemon/web_server_rig.h"

namespace antiphon::daemon {
namespace {

TEST_F(WebServerTest, EchoesEverySizeAndFragmentation) {
  Socket socket = Open("/echo", "antiphon.v1");
  socket.binary(true);
  for (const size_t size : {1UL, 125UL, 126UL, 4096UL, 16383UL, 16385UL, 65535UL, 65536UL}) {
    std::string message(size, '\0');
    for (size_t n = 0; n < size; ++n) message[n] = static_cast<char>(n * 31);
    socket.write(asio::buffer(message));
    EXPECT_EQ(Read(socket), message) << size;
    EXPECT_TRUE(socket.got_binary());
    for (size_t at = 0; at < size;) {  // in fragments of a third each
      const size_t part = std::min(size / 3 + 1, size - at);
      socket.write_some(at + part == size, asio::buffer(message.data() + at, part));
      at += part;
    }
    EXPECT_EQ(Read(socket), message) << size;
  }
  socket.text(true);
  socket.write(asio::buffer(std::string("gr\xc3\xbc\xc3\x9f")));
  EXPECT_EQ(Read(socket), "gr\xc3\xbc\xc3\x9f");
  EXPECT_TRUE(socket.got_text());
  socket.close(websocket::close_code::normal);
  EXPECT_TRUE(Eventually([this] { return seen_.closed == 1; }));
}

TEST_F(WebServerTest, ChoosesTheSubProtocol) {
  websocket::response_type response;
  Socket socket(Connect());
  Handshake(socket, "/echo", "other, antiphon.v1", &response);
  EXPECT_EQ(response[http::field::sec_websocket_protocol], "antiphon.v1");
  Socket plain(Connect());
  Handshake(plain, "/any?a=1%262&b=x%20y+z", "", &response);
  EXPECT_EQ(response.count(http::field::sec_websocket_protocol), 0U);
  EXPECT_TRUE(Eventually([this] { return seen_.opened == 2; }));
  const ConnectionInfo info = OnLoop([this] { return seen_.info; });
  EXPECT_EQ(info.path, "/any");
  EXPECT_EQ(info.remote_address, "127.0.0.1");
  EXPECT_EQ(info.query.at("a"), "1&2");
  EXPECT_EQ(info.query.at("b"), "x y z");
}

TEST_F(WebServerTest, RefusesUpgradesThatHaveNoRoute) {
  const auto refused = [this](const std::string& target) {
    Socket socket(Connect());
    websocket::response_type response;
    boost::system::error_code error;
    socket.handshake(response, "localhost", target, error);
    EXPECT_TRUE(error) << target;
    return response.result_int();
  };
  EXPECT_EQ(refused("/nowhere"), 404U);
  EXPECT_EQ(refused("/hello"), 404U);
  EXPECT_EQ(refused("/echo"), 400U);  // without its sub-protocol
}

TEST_F(WebServerTest, TooLongAndNotUtf8AreClosedWithTheirCodes) {
  const auto code = [](Socket& socket) {
    beast::flat_buffer buffer;
    boost::system::error_code error;
    socket.read(buffer, error);
    EXPECT_TRUE(error);
    return static_cast<int>(socket.reason().code);
  };
  Socket longer = Open("/any");
  longer.binary(true);
  longer.write(asio::buffer(std::string(kMaxMessageBytes + 1, 'x')));
  EXPECT_EQ(code(longer), 1009);
  Socket broken = Open("/any");
  broken.text(true);
  broken.write(asio::buffer(std::string("\xc3\x28")));
  EXPECT_EQ(code(broken), 1007);
  EXPECT_TRUE(Eventually([this] { return seen_.closed == 2; }));
}

TEST_F(WebServerTest, CloseSendsWhatIsQueuedThenTheCode) {
  Socket socket = Open("/any");
  socket.text(true);
  socket.write(asio::buffer(std::string("close")));
  EXPECT_EQ(Read(socket), "last");
  beast::flat_buffer buffer;
  boost::system::error_code error;
  socket.read(buffer, error);
  EXPECT_EQ(error, websocket::error::closed);
  EXPECT_EQ(socket.reason().code, 1013);
  EXPECT_EQ(socket.reason().reason, "busy");
  EXPECT_TRUE(Eventually([this] { return seen_.closed == 1; }));
}

TEST_F(WebServerTest, ResetAtAnyStateIsForgotten) {
  const std::string upgrade =
      "GET /any HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
      "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
  for (const size_t sent : {size_t{0}, size_t{9}, upgrade.size() - 2, upgrade.size()}) {
    tcp::socket socket = Connect();
    asio::write(socket, asio::buffer(upgrade.data(), sent));
    socket.set_option(asio::socket_base::linger(true, 0));
    socket.close();
  }
  Socket open = Open("/any");
  open.write(asio::buffer(std::string("x")));
  EXPECT_EQ(Read(open), "x");
  open.next_layer().set_option(asio::socket_base::linger(true, 0));
  open.next_layer().close();
  EXPECT_TRUE(Eventually([this] {
    return server_->open_sockets() == 0 && seen_.opened == seen_.closed && seen_.opened >= 1;
  }));
}

TEST_F(WebServerTest, SlowReaderIsMeasuredAndCut) {
  Socket socket = Open("/any");
  EXPECT_TRUE(Eventually([this] { return seen_.socket != nullptr; }));
  const std::vector<uint8_t> megabyte(1 << 20);
  OnLoop([&] {
    for (int n = 0; n < 32; ++n) seen_.socket->SendBinary(megabyte);
  });
  EXPECT_GT(OnLoop([this] { return seen_.socket->queued_bytes(); }), megabyte.size());
  OnLoop([this] { seen_.socket->Close(1013, "too slow"); });
  EXPECT_TRUE(Eventually([this] { return seen_.closed == 1; }));
}

TEST(WebServer, SilentPeersAreCut) {
  asio::io_context io;
  Seen seen;
  WebServerOptions options;
  options.listen = {{"127.0.0.1", 0, false}};
  options.ping_interval_s = 1;
  std::vector<WebSocketRoute> sockets;
  sockets.push_back({"/any", "", kMaxMessageBytes,
                     [&](const ConnectionInfo&) { return std::make_unique<Echo>(seen); }});
  WebServer server(io, options, {}, sockets);
  asio::io_context client_io;
  tcp::socket client(client_io);
  client.connect({asio::ip::make_address("127.0.0.1"), server.ports()[0]});
  asio::write(client,
              asio::buffer(std::string("GET /any HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                                       "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")));
  const auto until = steady_clock::now() + std::chrono::seconds(30);
  while (seen.closed == 0 && steady_clock::now() < until) io.run_one_for(milliseconds(100));
  EXPECT_EQ(seen.opened, 1);
  EXPECT_EQ(seen.closed, 1);
}

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

TEST_F(WebServerTest, ManyConnectionsLeaveNoDescriptorBehind) {
  { Socket warm = Open("/any"); }
  EXPECT_TRUE(Eventually([this] { return server_->open_sockets() == 0; }));
  const size_t before = OpenDescriptors();
  for (int n = 0; n < 200; ++n) {
    Socket socket = Open("/any");
    if (n % 2 == 0) socket.close(websocket::close_code::normal);
  }
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= before && seen_.closed == 201; }))
      << OpenDescriptors() << " descriptors, " << before << " before";
}

TEST_F(WebServerTest, AnswersHttp) {
  tcp::socket socket = Connect();
  beast::flat_buffer buffer;
  const auto ask = [&](http::verb verb, const std::string& target, const std::string& etag = "") {
    http::request<http::empty_body> request(verb, target, 11);
    request.set(http::field::host, "localhost");
    if (!etag.empty()) request.set(http::field::if_none_match, etag);
    http::write(socket, request);
    http::response_parser<http::string_body> parser;
    parser.skip(verb == http::verb::head);
    http::read(socket, buffer, parser);
    return parser.release();
  };
  const auto get = ask(http::verb::get, "/hello?name=a%20b&flag");  // all on one connection
  EXPECT_EQ(get.result_int(), 200U);
  EXPECT_EQ(get.body(), "hello|flag=|name=a b");
  EXPECT_EQ(get[http::field::content_type], "text/plain");
  EXPECT_EQ(get["X-Content-Type-Options"], "nosniff");
  const auto head = ask(http::verb::head, "/hello");
  EXPECT_EQ(head.result_int(), 200U);
  EXPECT_EQ(head[http::field::content_length], "5");
  EXPECT_EQ(ask(http::verb::get, "/hello", "\"7\"").result_int(), 304U);
  EXPECT_EQ(ask(http::verb::get, "/large").body(), std::string(300000, 'x'));
  EXPECT_EQ(ask(http::verb::get, "/nowhere").result_int(), 404U);
  EXPECT_EQ(ask(http::verb::get, "/any").result_int(), 426U);
  EXPECT_EQ(ask(http::verb::post, "/hello").result_int(), 405U);
}

TEST_F(WebServerTest, BadRequestsEndTheirConnectionOnly) {
  EXPECT_THAT(Raw("GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + std::string(20000, 'x') + "\r\n\r\n"),
              testing::Not(testing::HasSubstr("200 OK")));
  EXPECT_THAT(Raw("\x16\x03\x01 this is not HTTP\r\n\r\n"),
              testing::Not(testing::HasSubstr("200 OK")));
  Socket socket = Open("/any");
  socket.write(asio::buffer(std::string("still here")));
  EXPECT_EQ(Read(socket), "still here");
}

TEST_F(WebServerTest, PortInUseIsNamed) {
  asio::io_context io;
  WebServerOptions options;
  options.listen = {{"127.0.0.1", port_, false}};
  try {
    WebServer second(io, options, {}, {});
    FAIL() << "expected AddressInUse";
  } catch (const AddressInUse& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("127.0.0.1:" + std::to_string(port_)));
  }
}

TEST_F(WebServerTest, PrintsTheEchoRoundTrip) {
  Socket socket = Open("/any");
  socket.binary(true);
  std::vector<double> times_ms;
  for (int n = 0; n < 500; ++n) {
    const auto start = steady_clock::now();
    socket.write(asio::buffer(std::string(160, 'x')));
    Read(socket);
    times_ms.push_back(
        std::chrono::duration<double, std::milli>(steady_clock::now() - start).count());
  }
  std::sort(times_ms.begin(), times_ms.end());
  std::printf("echo round trip: median %.3f ms, p99 %.3f ms\n", times_ms[250], times_ms[495]);
}

}  // namespace
}  // namespace antiphon::daemon
