// What /metrics says. I/O thread only.
#pragma once

#include <string>

#include "daemon/session_table.h"
#include "daemon/tick_loop.h"
#include "daemon/web_server.h"

namespace antiphon::daemon {

struct MetricsSources {
  const TickLoop& ticks;
  const SessionTable& table;
  int codec_threads = 0;
  bool healthy = false;                  // as /healthz
  const FrontCounters* front = nullptr;  // null: not told
};

// The page in Prometheus' text format. Labels are few and bounded: "slot" is a number below the
// capacity, "reason" and "part" are words of this program; nothing a client sent is ever a label.
std::string ServiceMetrics(const MetricsSources& sources, Time now);

}  // namespace antiphon::daemon
