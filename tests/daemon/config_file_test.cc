#include "daemon/config_file.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "daemon/web_server.h"
#include "engine/error.h"

namespace antiphon::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FaultOf(const std::string& text) {
  DaemonOptions options;
  try {
    ReadConfig(text, "a.toml", options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

struct FaultCase {
  const char* text;
  const char* message;
};

class ConfigFault : public ::testing::TestWithParam<FaultCase> {};

TEST_P(ConfigFault, NamesFileLineKeyExpectedAndFound) {
  EXPECT_EQ(FaultOf(GetParam().text), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, ConfigFault,
    ::testing::Values(
        FaultCase{"[server]\nmax_connections = \"many\"",
                  "a.toml:2: server.max_connections: expected an integer from 1 to 65536, found "
                  "'many'"},
        FaultCase{"[server]\nmax_connections = 0",
                  "a.toml:2: server.max_connections: expected an integer from 1 to 65536, found 0"},
        FaultCase{"[sessions]\nmax = 2.5",
                  "a.toml:2: sessions.max: expected an integer from 1 to 1024, found 2.5"},
        FaultCase{"[sessions]\n\nmaks = 2",
                  "a.toml:3: sessions.maks: expected a known key, found an unknown one; did you "
                  "mean sessions.max?"},
        FaultCase{"[server]\nopus_bitrate = 2",
                  "a.toml:2: server.opus_bitrate: expected a known key, found an unknown one; did "
                  "you mean audio.opus_bitrate?"},
        FaultCase{"[sevrer]\nlisten = []",
                  "a.toml:1: sevrer: expected a known section, found an unknown one; did you mean "
                  "server?"},
        FaultCase{"model = \"echo\"", "a.toml:1: model: expected a section, found 'echo'"},
        FaultCase{"[log]\nlevel = \"loud\"",
                  "a.toml:2: log.level: expected one of \"debug\", \"info\", \"warn\", \"error\", "
                  "found \"loud\""},
        FaultCase{"[server]\nlisten = \"127.0.0.1:1\"",
                  "a.toml:2: server.listen: expected a list of strings, found '127.0.0.1:1'"},
        FaultCase{"[server]\nlisten = [1]",
                  "a.toml:2: server.listen: expected a list of strings, found [ 1 ]"},
        FaultCase{"[model]\npath = 1", "a.toml:2: model.path: expected a string, found 1"}));

TEST(ConfigFile, ReportsAllFaultsTogether) {
  const std::string fault = FaultOf("[sessions]\nmax = 0\nstart_timeout_s = 0");
  EXPECT_THAT(fault, HasSubstr("a.toml:2: "));
  EXPECT_THAT(fault, HasSubstr("\na.toml:3: "));
}

TEST(ConfigFile, SaysWhereTomlIsBroken) {
  EXPECT_THAT(FaultOf("[server]\nlisten = [\n"), HasSubstr("a.toml:"));
  EXPECT_THAT(FaultOf("[server]\n= 2\n"), HasSubstr("a.toml:2: expected TOML"));
}

TEST(ConfigFile, MissingFileIsNamed) {
  DaemonOptions options;
  EXPECT_THROW(ReadConfigFile("/nonexistent/a.toml", options), InputError);
}

TEST(ConfigFile, ReadsEveryKind) {
  DaemonOptions options;
  ReadConfig(
      "[server]\nlisten = [\"127.0.0.1:1\", \"[::1]:2\"]\n[model]\npath = \"echo\"\nthreads = 3",
      "a.toml", options);
  EXPECT_THAT(options.server.listen, ElementsAre("127.0.0.1:1", "[::1]:2"));
  EXPECT_EQ(options.model.path, "echo");
  EXPECT_EQ(options.model.threads, 3);
}

TEST(ConfigFile, CommandLineOverrides) {
  DaemonOptions options;
  OverrideOption("server.tls_listen", "0.0.0.0:1,0.0.0.0:2", options);
  OverrideOption("server.listen", "", options);
  OverrideOption("sessions.max", "7", options);
  EXPECT_THAT(options.server.tls_listen, ElementsAre("0.0.0.0:1", "0.0.0.0:2"));
  EXPECT_TRUE(options.server.listen.empty());
  EXPECT_EQ(options.sessions.max, 7);
  EXPECT_THROW(OverrideOption("sessions.max", "7x", options), InputError);
  EXPECT_THROW(OverrideOption("sessions.max", "", options), InputError);
  EXPECT_THROW(OverrideOption("sessions.min", "7", options), InputError);
}

TEST(ConfigFile, PrintedOptionsReadBack) {
  DaemonOptions options;
  options.server.listen = {"[::1]:9", "127.0.0.1:8"};
  options.model.path = "C:\\\"odd\" name";
  options.audio.opus_bitrate = 6000;
  DaemonOptions again;
  ReadConfig(PrintConfig(options), "printed", again);
  EXPECT_EQ(PrintConfig(again), PrintConfig(options));
  EXPECT_EQ(again.model.path, options.model.path);
}

TEST(ConfigFile, ShippedFileIsTheTable) {
  std::ifstream file(ANTIPHON_SOURCE_DIR "/systemd/antiphond.toml");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), DefaultConfig()) << "write it anew: antiphond --default-config";
  DaemonOptions options;
  ReadConfig(text.str(), "antiphond.toml", options);
  EXPECT_EQ(PrintConfig(options), PrintConfig({}));
}

TEST(Options, Addresses) {
  EXPECT_EQ(ParseListenAddress("[::1]:8998", false).address, "::1");
  EXPECT_EQ(ParseListenAddress("localhost:0", true).address, "127.0.0.1");
  EXPECT_TRUE(ParseListenAddress("0.0.0.0:1", true).tls);
  for (const char* bad : {"", ":", "8998", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:80",
                          "[::1]", "example.org:80", "127.0.0.1:8x", "[]:1"}) {
    EXPECT_THROW(ParseListenAddress(bad, false), InputError) << bad;
  }
  EXPECT_TRUE(IsLoopback("127.1.2.3"));
  EXPECT_TRUE(IsLoopback("::1"));
  EXPECT_FALSE(IsLoopback("0.0.0.0"));
}

TEST(Options, Contradictions) {
  DaemonOptions options;
  EXPECT_TRUE(Contradictions(options).empty());
  options.server.certificate = "a.pem";
  options.server.listen = {"nowhere"};
  EXPECT_EQ(Contradictions(options).size(), 2U);
  options.server = {};
  options.server.listen.clear();
  EXPECT_EQ(Contradictions(options).size(), 1U);
}

}  // namespace
}  // namespace antiphon::daemon
