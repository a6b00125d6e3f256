// The page's files, embedded in the binary at build time.
#pragma once

#include <span>
#include <string_view>

namespace antiphon::web {

struct Asset {
  std::string_view path;          // as requested: "/" is index.html, else "/app.js", ...
  std::string_view content_type;  // "text/html; charset=utf-8"
  std::string_view body;
};

// Every file of the page; valid for ever. The page asks for them relative to its own address, so
// that a proxy may serve it under a path prefix.
std::span<const Asset> Assets();

// Content-Security-Policy to send with every asset: nothing inline, nothing from elsewhere. "ws:
// wss:" stand there because not every browser counts a socket to the page's own host as 'self'.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws: wss:; "
    "img-src 'self' data:; media-src 'self' blob:; worker-src 'self' blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

}  // namespace antiphon::web
