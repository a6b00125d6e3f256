// What the doctor looks at. `root` stands before /proc, /sys and /dev; "" on a real machine.
#pragma once

#include <string>
#include <vector>

#include "daemon/options.h"

namespace antiphon::cli {

struct Finding {
  enum class Level { kOk, kWarning, kFault } level = Level::kOk;
  std::string what;    // "cpu governor: powersave on 8 of 16 cores"
  std::string remedy;  // "" where nothing is to be done
};

// The processors' frequency governors: "performance" keeps ticks even.
Finding CheckGovernor(const std::string& root);
// The kernel's clock: anything but tsc, arch_sys_counter or kvm-clock makes waiting slow.
Finding CheckClockSource(const std::string& root);
// GPU device nodes and driver; none is fine, a GPU without a driver that answers is not.
Finding CheckGpu(const std::string& root);
// Sound cards' device nodes, and whether we may open them.
Finding CheckSound(const std::string& root);
// Whether SCHED_FIFO `priority` is granted to us.
Finding CheckRealtime(int priority);
// RLIMIT_MEMLOCK.
Finding CheckMemoryLock();
// Whether "IP:port" is free, or held by a daemon.
Finding CheckPort(const std::string& address);
// A PEM certificate: readable, and valid for two weeks more.
Finding CheckCertificate(const std::string& file);
// "embedded", "echo" or a checkpoint folder: whole or not.
Finding CheckModel(const std::string& path);

// All of them, for a configuration.
std::vector<Finding> CheckAll(const daemon::DaemonOptions& options, const std::string& root);

}  // namespace antiphon::cli
