#include "daemon/static_page.h"

#include <cstdio>

#include "web/web_assets.h"

namespace antiphon::daemon {
namespace {

// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/): tells versions of a file apart.
std::string ETag(std::string_view body) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : body) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  char text[24];
  std::snprintf(text, sizeof(text), "\"%016llx\"", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

std::vector<HttpRoute> PageRoutes() {
  std::vector<HttpRoute> routes;
  for (const web::Asset& asset : web::Assets()) {
    HttpResponse response;
    response.content_type = asset.content_type;
    response.body = asset.body;
    response.headers = {{"Content-Security-Policy", std::string(web::kContentSecurityPolicy)},
                        {"Cache-Control", "no-cache"},  // kept, but asked about each time
                        {"ETag", ETag(asset.body)}};
    routes.push_back(
        {std::string(asset.path), [response](const ConnectionInfo&) { return response; }});
  }
  return routes;
}

}  // namespace antiphon::daemon
