#include "daemon/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace antiphon::daemon {
namespace {

Configuration Read(const std::string& text) {
  Configuration configuration;
  ReadConfigText(text, "a.toml", &configuration);
  CheckConfiguration(&configuration);
  return configuration;
}

std::string ErrorOf(const std::string& text) {
  const std::vector<std::string> faults = Read(text).faults;
  EXPECT_LE(faults.size(), 1U) << text;
  return faults.empty() ? "" : faults[0];
}

TEST(ConfigFile, FaultsNameFileLineKeyExpectedAndFound) {
  EXPECT_EQ(ErrorOf("[server]\nping_interval_s = 0\n"),
            "a.toml:2: server.ping_interval_s: expected a whole number from 1 to 3600, found 0");
  EXPECT_EQ(
      ErrorOf("[server]\nlisten = 8998\n"),
      "a.toml:2: server.listen: expected a list of \"IP:port\" or \"[IPv6]:port\", found 8998");
  EXPECT_EQ(ErrorOf("[log]\nlevle = \"info\"\n"),
            "a.toml:2: log.levle: unknown key; did you mean log.level?");
  EXPECT_EQ(ErrorOf("\n[sever]\n"), "a.toml:2: [sever]: unknown section");
  EXPECT_THAT(ErrorOf("[model]\nweights = \"int3\"\n"), testing::HasSubstr("\"fp32\""));
  EXPECT_THAT(ErrorOf("[server\n"), testing::StartsWith("a.toml:1: expected TOML"));
  EXPECT_EQ(ErrorOf("[server]\nlisten = [\"::1:80\"]\n"),
            "a.toml:2: server.listen: expected \"IP:port\" or \"[IPv6]:port\", found \"::1:80\"");
  EXPECT_EQ(ErrorOf("[server]\n\ncertificate = \"c\"\n"),
            "a.toml:3: server.certificate: expected together with server.private_key, found alone");
  EXPECT_EQ(ErrorOf("[server]\nlisten = []\n"),
            "a.toml:2: server.listen: expected at least one address here or in "
            "server.tls_listen, found none");
}

TEST(ConfigFile, EveryFaultOfAFileIsNamed) {
  const Configuration read = Read(
      "[sessions]\nstart_timeout_s = 0\nslots = 3\nmaxx = 1\n"
      "[log]\nlevel = 3\n[sever]\n[audio]\nbuffer_max_ms = 199\n");
  EXPECT_THAT(
      read.faults,
      testing::ElementsAre(
          "a.toml:2: sessions.start_timeout_s: expected a whole number from 1 to 3600, found 0",
          "a.toml:4: sessions.maxx: unknown key; did you mean sessions.max?",
          "a.toml:6: log.level: expected one of \"debug\", \"info\", \"warning\", \"error\", found "
          "3",
          "a.toml:7: [sever]: unknown section",
          "a.toml:9: audio.buffer_max_ms: expected a whole number from 200 to 2000, found 199"));
  EXPECT_EQ(read.options.sessions_slots, 3);
  EXPECT_EQ(read.options.sessions_start_timeout_s, 10);
  Configuration absent;
  ReadConfigFile("no-such.toml", &absent);
  EXPECT_EQ(absent.faults, std::vector<std::string>{"no-such.toml: expected a readable "
                                                    "configuration file, found none"});
}

TEST(ConfigFile, CommandLineOverrides) {
  Configuration configuration;
  const DaemonOptions& options = configuration.options;
  SetOption("server.listen=[::1]:0,127.0.0.1:0", &configuration);
  SetOption("sessions.slots=7", &configuration);
  EXPECT_EQ(options.server_listen, (std::vector<std::string>{"[::1]:0", "127.0.0.1:0"}));
  SetOption("server.tls_listen=[\"[::1]:1\", \"127.0.0.1:2\"]", &configuration);
  EXPECT_EQ(options.server_tls_listen, (std::vector<std::string>{"[::1]:1", "127.0.0.1:2"}));
  EXPECT_EQ(options.sessions_slots, 7);
  EXPECT_THAT(configuration.faults, testing::IsEmpty());
  SetOption("sessions.slots=many", &configuration);
  SetOption("sessions.slot=1", &configuration);
  EXPECT_THAT(configuration.faults,
              testing::ElementsAre(
                  "--sessions.slots: expected a whole number from 1 to 1024, found \"many\"",
                  "--sessions.slot: unknown key; did you mean sessions.slots?"));
  Configuration again;
  ReadConfigText(FormatOptions(options, false), "printed", &again);
  EXPECT_THAT(again.faults, testing::IsEmpty());
  EXPECT_EQ(FormatOptions(again.options, false), FormatOptions(options, false));
}

TEST(ConfigFile, ShippedFileIsTheGeneratedOne) {
  std::ifstream file(ANTIPHON_SOURCE_DIR "/systemd/antiphond.toml");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), FormatOptions({}, true));
}

}  // namespace
}  // namespace antiphon::daemon
