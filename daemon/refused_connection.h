// Connections beyond the limit: told so in HTTP, given a second to hear it, and closed.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>

namespace antiphon::daemon {

// Sockets that are being refused at once; more are closed without a word.
inline constexpr int kMaxRefusedConnections = 64;

// Answers 503 with Retry-After. The answer goes on by itself, whatever becomes of the caller;
// `open` counts those under way. I/O thread only. A socket that expects TLS must not come here.
void RefuseConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<int> open);

}  // namespace antiphon::daemon
