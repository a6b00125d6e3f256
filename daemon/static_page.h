// The embedded page as HTTP routes.
#pragma once

#include <vector>

#include "daemon/web_server.h"

namespace antiphon::daemon {

// One route for each file, with its content security policy and an ETag of its content.
std::vector<HttpRoute> PageRoutes();

}  // namespace antiphon::daemon
