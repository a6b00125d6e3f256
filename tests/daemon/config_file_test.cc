#include "daemon/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engine/error.h"

namespace antiphon::daemon {
namespace {

std::string ErrorOf(const std::string& text) {
  DaemonOptions options;
  try {
    ReadConfigText(text, "a.toml", &options);
    CheckOptions(options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ConfigFile, FaultsNameFileLineKeyExpectedAndFound) {
  EXPECT_EQ(ErrorOf("[server]\nping_interval_s = 0\n"),
            "a.toml:2: server.ping_interval_s: expected a whole number from 1 to 3600, found 0");
  EXPECT_EQ(ErrorOf("[server]\nlisten = 8998\n"),
            "a.toml:2: server.listen: expected a list of texts, found 8998");
  EXPECT_EQ(ErrorOf("[log]\nlevle = \"info\"\n"),
            "a.toml:2: log.levle: unknown key; did you mean log.level?");
  EXPECT_EQ(ErrorOf("\n[sever]\n"), "a.toml:2: [sever]: unknown section");
  EXPECT_THAT(ErrorOf("[model]\nweights = \"int3\"\n"), testing::HasSubstr("\"fp32\""));
  EXPECT_THAT(ErrorOf("[server\n"), testing::StartsWith("a.toml:1: expected TOML"));
  EXPECT_THAT(ErrorOf("[server]\nlisten = [\"::1:80\"]\n"), testing::HasSubstr("[IPv6]:port"));
  EXPECT_THAT(ErrorOf("[server]\ncertificate = \"c\"\n"), testing::HasSubstr("private_key"));
}

TEST(ConfigFile, CommandLineOverrides) {
  DaemonOptions options;
  SetOption("server.listen=[::1]:0,127.0.0.1:0", &options);
  SetOption("sessions.slots=7", &options);
  EXPECT_EQ(options.server_listen, (std::vector<std::string>{"[::1]:0", "127.0.0.1:0"}));
  SetOption("server.tls_listen=[\"[::1]:1\", \"127.0.0.1:2\"]", &options);
  EXPECT_EQ(options.server_tls_listen, (std::vector<std::string>{"[::1]:1", "127.0.0.1:2"}));
  EXPECT_EQ(options.sessions_slots, 7);
  EXPECT_THROW(SetOption("sessions.slots=many", &options), InputError);
  EXPECT_THROW(SetOption("sessions.slot=1", &options), InputError);
  DaemonOptions again;
  ReadConfigText(FormatOptions(options, false), "printed", &again);
  EXPECT_EQ(FormatOptions(again, false), FormatOptions(options, false));
}

TEST(ConfigFile, ShippedFileIsTheGeneratedOne) {
  std::ifstream file(ANTIPHON_SOURCE_DIR "/systemd/antiphond.toml");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), FormatOptions({}, true));
}

}  // namespace
}  // namespace antiphon::daemon
