#include "cli/voice_client.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "audio/opus_codec.h"
#include "audio/pcm.h"

namespace antiphon::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using Error = boost::system::error_code;
using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr int kPacket = audio::kOpusPacketSamples;
constexpr std::chrono::milliseconds kPacketTime{20};
constexpr int64_t kFrame = 4 * kPacket;
constexpr std::chrono::seconds kConnectWithin{10};
constexpr std::chrono::seconds kGoodbyeWithin{3};
constexpr size_t kMaxQueued = 25;  // messages, half a second of sound

uint64_t Count(const json& message, const char* field) {
  const auto found = message.find(field);
  return found != message.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}
double Number(const json& message, const char* field) {
  const auto found = message.find(field);
  return found != message.end() && found->is_number() ? found->get<double>() : 0.0;
}
std::string Text(const json& message, const char* field) {
  const auto found = message.find(field);
  return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// What a conversation does, whatever carries it.
class Conversation {
 public:
  Conversation(asio::io_context& io, const VoiceClientOptions& options, VoiceClientReport* report)
      : options_(options), report_(*report), pace_(io), limit_(io), encoder_({}) {}
  virtual ~Conversation() = default;
  virtual void Begin(const VoiceUrl& url) = 0;

 protected:
  struct Message {
    bool binary = false;
    std::vector<uint8_t> bytes;
  };

  virtual void Flush() = 0;  // begins to send queue_ unless it is being sent
  virtual void Abort() = 0;  // cuts the connection

  void Fail(const std::string& what, const Error& error) {
    if (over_) return;
    if (report_.error.empty()) report_.error = what + ": " + error.message();
    Finish();
  }
  void Finish() {
    over_ = true;
    pace_.cancel();
    limit_.cancel();
    Abort();
  }
  // Gives up unless the next stage is reached in time.
  void Expect(std::chrono::seconds within, const char* what) {
    limit_.expires_after(within);
    limit_.async_wait([this, what](const Error& error) {
      if (error || over_) return;
      if (report_.error.empty()) report_.error = std::string(what) + ": timed out";
      Finish();
    });
  }

  void SendJson(const json& message) {
    const std::string text = message.dump(-1, ' ', false, json::error_handler_t::replace);
    queue_.push_back({false, {text.begin(), text.end()}});
    Flush();
  }

  void OnMessage(bool binary, const std::vector<uint8_t>& bytes) {
    if (binary) return OnSound(bytes);
    const json message = json::parse(bytes.begin(), bytes.end(), nullptr, false);
    if (!message.is_object()) return;
    const std::string type = Text(message, "type");
    if (type == "hello") {
      json start = {{"type", "start"}, {"audio", "opus"}};
      if (!options_.voice.empty()) start["voice"] = options_.voice;
      if (!options_.text_prompt.empty()) start["text_prompt"] = options_.text_prompt;
      SendJson(start);
    } else if (type == "ready") {
      OnReady();
    } else if (type == "text") {
      const std::string piece = Text(message, "text");
      report_.text += piece;
      if (options_.on_text) options_.on_text(Count(message, "time_ms"), piece);
    } else if (type == "stats") {
      report_.frames = Count(message, "frames");
      report_.late = Count(message, "late");
      report_.degraded = Count(message, "degraded");
      report_.starved = Count(message, "starved");
      report_.oldest_ms = Number(message, "oldest_ms");
      report_.dropped_ms = Number(message, "dropped_ms");
    } else if (type == "error") {
      report_.error = Text(message, "code") + ": " + Text(message, "message");
      // The daemon would wait for another start; we have none.
      if (!report_.ready && Text(message, "code") == "bad_option") Finish();
    }
  }

  bool leaving_ = false;
  bool over_ = false;
  std::deque<Message> queue_;
  const VoiceClientOptions& options_;
  VoiceClientReport& report_;

 private:
  void OnReady() {
    report_.ready = true;
    began_ = SteadyClock::now();
    limit_.cancel();
    Pace();
  }

  // A packet is complete, and sent, at the end of the 20 ms that it holds.
  void Pace() {
    pace_.expires_at(began_ + kPacketTime * (sent_ + 1));
    pace_.async_wait([this](const Error& error) {
      if (error || over_) return;
      if (static_cast<double>(sent_) * 0.02 >= options_.seconds) {
        leaving_ = true;
        SendJson({{"type", "bye"}});
        return Expect(kGoodbyeWithin, "goodbye");
      }
      SendSound();
      ++sent_;
      Pace();
    });
  }

  void SendSound() {
    float pcm[kPacket] = {};
    const size_t begin = static_cast<size_t>(sent_) * kPacket;
    if (begin < options_.sound.size()) {
      const size_t count = std::min<size_t>(kPacket, options_.sound.size() - begin);
      std::copy_n(options_.sound.begin() + static_cast<std::ptrdiff_t>(begin), count, pcm);
    }
    uint8_t packet[audio::kOpusMaxPacketBytes];
    const size_t bytes = encoder_.Encode(pcm, packet);
    if (queue_.size() >= kMaxQueued) {
      ++report_.unsent_packets;
      return;
    }
    Message message{true, {1}};
    message.bytes.insert(message.bytes.end(), packet, packet + bytes);
    queue_.push_back(std::move(message));
    Flush();
  }

  void OnSound(const std::vector<uint8_t>& bytes) {
    if (bytes.empty() || !report_.ready) return;
    pcm_.clear();
    if (bytes[0] == 1) {
      decoder_.Decode(std::span(bytes).subspan(1), &pcm_);
    } else if (bytes[0] == 2) {
      for (size_t i = 1; i + 1 < bytes.size(); i += 2) {
        pcm_.push_back(audio::FromPcm16(static_cast<int16_t>(bytes[i] | (bytes[i + 1] << 8))));
      }
    }
    if (pcm_.empty()) return;
    const std::chrono::nanoseconds at = SteadyClock::now() - began_;
    // Frames that were skipped do not come later: where sound is two frames behind the clock, it
    // goes on at the clock.
    const int64_t now = at.count() * audio::kOpusRateHz / 1'000'000'000;
    if (now - position_ > 2 * kFrame) position_ += (now - position_) / kFrame * kFrame;
    report_.arrivals.push_back({position_, at});
    ++report_.packets;
    const int64_t end = position_ + static_cast<int64_t>(pcm_.size());
    if (options_.keep_sound) {
      report_.sound.resize(static_cast<size_t>(end), 0.0F);
      std::copy(pcm_.begin(), pcm_.end(), report_.sound.begin() + position_);
    }
    position_ = end;
  }

  asio::steady_timer pace_, limit_;
  audio::OpusEncoder encoder_;
  audio::OpusDecoder decoder_;
  std::vector<float> pcm_;
  SteadyClock::time_point began_;
  int64_t sent_ = 0;      // packets whose time has come
  int64_t position_ = 0;  // on the session's clock, of the next sound
};

template <class Stream>
class Call final : public Conversation {
 public:
  template <class... Arguments>
  Call(asio::io_context& io, const VoiceClientOptions& options, VoiceClientReport* report,
       Arguments&... arguments)
      : Conversation(io, options, report), resolver_(io), stream_(io, arguments...) {}

  void Begin(const VoiceUrl& url) override {
    url_ = url;
    Expect(kConnectWithin, "connecting");
    resolver_.async_resolve(url.host, url.port, [this](const Error& error, auto results) {
      if (error) return Fail("resolving " + url_.host, error);
      beast::get_lowest_layer(stream_).async_connect(
          results, [this](const Error& connect_error, const auto&) {
            if (connect_error) {
              return Fail("connecting to " + url_.host + ":" + url_.port, connect_error);
            }
            Error ignored;
            beast::get_lowest_layer(stream_).socket().set_option(asio::ip::tcp::no_delay(true),
                                                                 ignored);
            Secure();
          });
    });
  }

 private:
  void Secure() {
    if constexpr (std::is_same_v<Stream, beast::tcp_stream>) {
      Upgrade();
    } else {
      auto& tls = stream_.next_layer();
      SSL_set_tlsext_host_name(tls.native_handle(), url_.host.c_str());
      tls.set_verify_mode(options_.insecure ? asio::ssl::verify_none : asio::ssl::verify_peer);
      if (!options_.insecure) {
        tls.set_verify_callback(asio::ssl::host_name_verification(url_.host));
      }
      tls.async_handshake(asio::ssl::stream_base::client, [this](const Error& error) {
        if (error) return Fail("TLS with " + url_.host, error);
        Upgrade();
      });
    }
  }

  void Upgrade() {
    stream_.set_option(websocket::stream_base::decorator([](websocket::request_type& request) {
      request.set(beast::http::field::sec_websocket_protocol, "antiphon.v1");
    }));
    stream_.read_message_max(size_t{1} << 20);
    const bool ipv6 = url_.host.find(':') != std::string::npos;
    const std::string host = ipv6 ? "[" + url_.host + "]" : url_.host;
    stream_.async_handshake(host + ":" + url_.port, url_.path, [this](const Error& error) {
      if (error) return Fail("WebSocket " + url_.path, error);
      Expect(std::chrono::seconds(120), "waiting for ready");
      Read();
    });
  }

  void Read() {
    stream_.async_read(buffer_, [this](const Error& error, size_t) {
      if (over_) return;
      if (error) {
        report_.close_code = stream_.reason().code;
        if (error == websocket::error::closed && leaving_) return Finish();
        return Fail("the daemon closed", error);
      }
      const auto data = buffer_.data();
      const auto* begin = static_cast<const uint8_t*>(data.data());
      message_.assign(begin, begin + data.size());
      buffer_.consume(buffer_.size());
      OnMessage(stream_.got_binary(), message_);
      if (!over_) Read();
    });
  }

  void Flush() override {
    if (sending_ || queue_.empty() || over_) return;
    sending_ = true;
    stream_.binary(queue_.front().binary);
    stream_.async_write(asio::buffer(queue_.front().bytes), [this](const Error& error, size_t) {
      sending_ = false;
      if (over_) return;
      if (error) return Fail("sending", error);
      queue_.pop_front();
      Flush();
    });
  }

  void Abort() override {
    resolver_.cancel();
    beast::get_lowest_layer(stream_).close();
  }

  VoiceUrl url_;
  asio::ip::tcp::resolver resolver_;
  websocket::stream<Stream> stream_;
  beast::flat_buffer buffer_;
  std::vector<uint8_t> message_;
  bool sending_ = false;
};

}  // namespace

bool ParseVoiceUrl(const std::string& url, VoiceUrl* parts) {
  *parts = {};
  std::string rest;
  if (url.starts_with("wss://")) {
    parts->tls = true;
    rest = url.substr(6);
  } else if (url.starts_with("ws://")) {
    rest = url.substr(5);
  } else {
    return false;
  }
  const size_t slash = rest.find('/');
  parts->path = slash == std::string::npos ? "" : rest.substr(slash);
  if (parts->path.empty() || parts->path == "/") parts->path = "/v1/voice";
  std::string authority = rest.substr(0, slash);
  parts->port = parts->tls ? "443" : "80";
  const size_t bracket = authority.find(']');
  const size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) {
    parts->port = authority.substr(colon + 1);
    authority.resize(colon);
  }
  if (authority.size() > 2 && authority.front() == '[' && authority.back() == ']') {
    authority = authority.substr(1, authority.size() - 2);
  }
  parts->host = authority;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !parts->host.empty() && !parts->port.empty() && parts->port.size() <= 5 &&
         std::all_of(parts->port.begin(), parts->port.end(), digit);
}

std::vector<VoiceClientReport> RunVoiceClients(const std::vector<VoiceClientOptions>& clients) {
  asio::io_context io;
  asio::ssl::context tls(asio::ssl::context::tls_client);
  Error ignored;
  tls.set_default_verify_paths(ignored);
  std::vector<VoiceClientReport> reports(clients.size());
  std::vector<std::unique_ptr<Conversation>> conversations;
  for (size_t i = 0; i < clients.size(); ++i) {
    VoiceUrl url;
    if (!ParseVoiceUrl(clients[i].url, &url)) {
      reports[i].error = "url: expected ws://host[:port][/path] or wss://, found " + clients[i].url;
      continue;
    }
    if (url.tls) {
      conversations.push_back(std::make_unique<Call<beast::ssl_stream<beast::tcp_stream>>>(
          io, clients[i], &reports[i], tls));
    } else {
      conversations.push_back(
          std::make_unique<Call<beast::tcp_stream>>(io, clients[i], &reports[i]));
    }
    conversations.back()->Begin(url);
  }
  io.run();
  return reports;
}

}  // namespace antiphon::cli
