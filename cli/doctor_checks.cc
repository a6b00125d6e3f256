#include "cli/doctor_checks.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "engine/checkpoint.h"
#include "engine/error.h"

namespace antiphon::cli {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

// The first line, "" where there is no such file.
std::string FirstLine(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Names in a folder that begin so; none where the folder is not there.
std::vector<std::string> Names(const fs::path& folder, const std::string& begin) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(begin)) names.push_back(name);
  }
  return names;
}

}  // namespace

Finding CheckGovernor(const std::string& root) {
  std::map<std::string, int> found;
  const fs::path folder = root + "/sys/devices/system/cpu";
  int cores = 0;
  for (const std::string& cpu : Names(folder, "cpu")) {
    const std::string governor = FirstLine(folder / cpu / "cpufreq/scaling_governor");
    if (governor.empty()) continue;
    ++found[governor];
    ++cores;
  }
  if (cores == 0) return {Level::kOk, "cpu governor: the machine does not scale frequencies", ""};
  const int good = found["performance"];
  if (good == cores) return {Level::kOk, "cpu governor: performance", ""};
  found.erase("performance");
  return {Level::kWarning,
          "cpu governor: " + found.begin()->first + " on " + std::to_string(cores - good) + " of " +
              std::to_string(cores) + " cores; ticks after silence may be late",
          "cpupower frequency-set -g performance"};
}

Finding CheckClockSource(const std::string& root) {
  const std::string source =
      FirstLine(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (source.empty()) return {Level::kWarning, "clock source: the kernel does not tell", ""};
  const bool good = source == "tsc" || source == "kvm-clock" || source == "arch_sys_counter" ||
                    source == "hyperv_clocksource_tsc_page";
  if (good) return {Level::kOk, "clock source: " + source, ""};
  return {Level::kWarning, "clock source: " + source + ", which is slow to read",
          "boot with clocksource=tsc, if the kernel's log does not call it unstable"};
}

Finding CheckGpu(const std::string& root) {
  const std::string driver = FirstLine(root + "/proc/driver/nvidia/version");
  const std::vector<std::string> nodes = Names(root + "/dev", "nvidia");
  if (driver.empty() && nodes.empty()) return {Level::kOk, "gpu: none; the processors serve", ""};
  if (driver.empty()) {
    return {Level::kFault, "gpu: device nodes without a driver",
            "load the driver: modprobe nvidia"};
  }
  if (nodes.empty()) {
    return {Level::kFault, "gpu: a driver without device nodes", "nvidia-modprobe -u -c 0"};
  }
  for (const std::string& node : nodes) {
    const std::string path = root + "/dev/" + node;
    if (fs::is_directory(path) || access(path.c_str(), R_OK | W_OK) == 0) continue;
    return {Level::kFault, "gpu: no permission for /dev/" + node,
            "add the daemon's user to the group that owns it"};
  }
  return {Level::kOk, "gpu: " + driver, ""};
}

Finding CheckSound(const std::string& root) {
  const std::vector<std::string> nodes = Names(root + "/dev/snd", "pcm");
  if (nodes.empty()) {
    return {Level::kWarning, "sound: no card; callers come over the network only", ""};
  }
  for (const std::string& node : nodes) {
    if (access((root + "/dev/snd/" + node).c_str(), R_OK | W_OK) == 0) continue;
    return {Level::kFault, "sound: no permission for /dev/snd/" + node,
            "add the user to the group audio: usermod -aG audio USER"};
  }
  return {Level::kOk, "sound: " + std::to_string(nodes.size()) + " playback and capture devices",
          ""};
}

Finding CheckRealtime(int priority) {
  const std::string what = "real-time priority " + std::to_string(priority);
  if (priority == 0) return {Level::kOk, "real-time priority: not asked for", ""};
  sched_param before{};
  const int policy = sched_getscheduler(0);
  sched_getparam(0, &before);
  sched_param wanted{};
  wanted.sched_priority = priority;
  if (sched_setscheduler(0, SCHED_FIFO, &wanted) != 0) {
    return {
        Level::kWarning, what + ": " + std::strerror(errno) + "; ticks may be late under load",
        "the service grants it (LimitRTPRIO); in a shell: ulimit -r " + std::to_string(priority)};
  }
  sched_setscheduler(0, policy, &before);
  return {Level::kOk, what + ": granted", ""};
}

Finding CheckMemoryLock() {
  constexpr rlim_t kEnough = rlim_t{256} << 20;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return {Level::kOk, "memory lock: unlimited", ""};
  const std::string what = "memory lock: " + std::to_string(limit.rlim_cur >> 20) + " MiB";
  if (limit.rlim_cur >= kEnough) return {Level::kOk, what, ""};
  return {Level::kWarning, what + "; weights may be swapped out",
          "the service grants it (LimitMEMLOCK); in a shell: ulimit -l unlimited"};
}

Finding CheckPort(const std::string& address) {
  namespace asio = boost::asio;
  const daemon::HostPort parsed = daemon::ParseHostPort("address", address);
  const std::string what = "address " + address;
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(parsed.host, error);
  if (error) return {Level::kFault, what + ": not a numeric address", "write an IP address"};
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io);
  const asio::ip::tcp::endpoint endpoint(ip, static_cast<uint16_t>(parsed.port));
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) return {Level::kOk, what + ": free", ""};
  if (error == asio::error::address_in_use) {
    return {Level::kWarning, what + ": in use; right if antiphond runs",
            "otherwise see who has it: ss -ltnp"};
  }
  return {Level::kFault, what + ": " + error.message(), "give an address of this machine"};
}

Finding CheckCertificate(const std::string& file) {
  constexpr time_t kTwoWeeks_s = 14 * 86400;
  const std::unique_ptr<FILE, int (*)(FILE*)> stream(std::fopen(file.c_str(), "re"), std::fclose);
  if (stream == nullptr) {
    return {Level::kFault, "certificate " + file + ": " + std::strerror(errno),
            "make it readable for the daemon's user"};
  }
  const std::unique_ptr<X509, void (*)(X509*)> certificate(
      PEM_read_X509(stream.get(), nullptr, nullptr, nullptr), X509_free);
  if (certificate == nullptr) {
    return {Level::kFault, "certificate " + file + ": not PEM", "write the chain in PEM format"};
  }
  const ASN1_TIME* const until = X509_get0_notAfter(certificate.get());
  if (X509_cmp_current_time(until) <= 0) {
    return {Level::kFault, "certificate " + file + ": expired", "renew it"};
  }
  time_t soon = time(nullptr) + kTwoWeeks_s;
  if (X509_cmp_time(until, &soon) <= 0) {
    return {Level::kWarning, "certificate " + file + ": expires within two weeks", "renew it"};
  }
  return {Level::kOk, "certificate " + file + ": valid", ""};
}

Finding CheckModel(const std::string& path) {
  if (path == "echo") return {Level::kOk, "model: echo", ""};
  try {
    const std::string folder = path == "embedded" ? engine::FindBuiltInModel(path) : path;
    const engine::Checkpoint checkpoint = engine::Checkpoint::Open(folder);
    if (checkpoint.missing().empty()) return {Level::kOk, "model: " + folder, ""};
    return {Level::kFault, "model " + folder + ": lacks " + checkpoint.missing().front(),
            "antiphon inspect " + folder + " names all that is missing"};
  } catch (const std::exception& error) {
    return {Level::kFault, std::string("model: ") + error.what(),
            "set model.path, or install the package anew"};
  }
}

std::vector<Finding> CheckAll(const daemon::DaemonOptions& options, const std::string& root) {
  std::vector<Finding> findings = {CheckModel(options.model_path),
                                   CheckRealtime(options.sessions_realtime_priority),
                                   CheckMemoryLock(),
                                   CheckGovernor(root),
                                   CheckClockSource(root),
                                   CheckGpu(root),
                                   CheckSound(root)};
  for (const auto* list : {&options.server_listen, &options.server_tls_listen}) {
    for (const std::string& address : *list) findings.push_back(CheckPort(address));
  }
  if (!options.server_certificate.empty()) {
    findings.push_back(CheckCertificate(options.server_certificate));
  } else if (!options.server_tls_listen.empty()) {
    findings.push_back({Level::kOk, "certificate: self-signed, made at first start", ""});
  }
  return findings;
}

}  // namespace antiphon::cli
