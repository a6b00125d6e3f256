// /metrics, /healthz and /readyz through real sockets; the format is judged by Prometheus' own
// tool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "daemon/metrics_text.h"
#include "tests/daemon/service_rig.h"

namespace antiphon::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Value of a sample as it stands in the page, -1 where it is not there.
double Value(const std::string& page, const std::string& sample) {
  const size_t at = page.find("\n" + sample + " ");
  return at == std::string::npos ? -1 : std::stod(page.substr(at + sample.size() + 2));
}

TEST(MetricsText, HistogramsAreCumulativeAndLabelsEscaped) {
  EdgeHistogram histogram;
  histogram.Add(80ms);
  histogram.Add(80001us);
  histogram.Add(5s);
  MetricsText text;
  text.Family("a_seconds", "histogram", "A.");
  text.Sample({{"part", "x\"y\\z\n"}}, histogram);
  const std::string labels = "{part=\"x\\\"y\\\\z\\n\",le=";
  EXPECT_THAT(text.text(), HasSubstr("_bucket" + labels + "\"0.076\"} 0\n"));
  EXPECT_THAT(text.text(), HasSubstr("_bucket" + labels + "\"0.08\"} 1\n"));
  EXPECT_THAT(text.text(), HasSubstr("_bucket" + labels + "\"0.084\"} 2\n"));
  EXPECT_THAT(text.text(), HasSubstr("_bucket" + labels + "\"+Inf\"} 3\n"));
}

TEST(Metrics, CountWhatHappenedAndPassPrometheusOwnCheck) {
  ServiceRig rig(1);
  rig.OnLoop([&] { rig.service->Start(); });
  VoiceTestClient client(rig);
  client.Await("hello");
  client.Send({{"type", "start"}});
  client.Await("stats");
  VoiceTestClient refused(rig);
  EXPECT_EQ(refused.AwaitEnd().code, 1013);

  const HttpAnswer answer = rig.Get("/metrics");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("Content-Type"), MetricsText::kContentType);
  const std::string& page = answer.body;
  EXPECT_EQ(Value(page, "antiphon_healthy"), 1);
  EXPECT_EQ(Value(page, "antiphon_admissions_total"), 1);
  EXPECT_EQ(Value(page, "antiphon_refusals_total{reason=\"busy\"}"), 1);
  EXPECT_EQ(Value(page, "antiphon_slots_free"), 0);
  EXPECT_GE(Value(page, "antiphon_frames_total{slot=\"0\"}"), 12);
  EXPECT_GE(Value(page, "antiphon_tick_seconds_count"), 12);
  EXPECT_GE(Value(page, "antiphon_tick_seconds_bucket{le=\"0.08\"}"), 0);
  EXPECT_GE(Value(page, "antiphon_tick_part_seconds_count{part=\"engine\"}"), 12);
  EXPECT_EQ(Value(page, "antiphon_opus_errors_total"), 0);
  EXPECT_EQ(Value(page, "antiphon_codec_threads"), 2);

  if (std::system("command -v promtool >/dev/null") != 0) {
    GTEST_SKIP() << "promtool is not here (Debian package prometheus)";
  }
  const std::string file = testing::TempDir() + "antiphon_metrics.txt";
  std::ofstream(file) << page;
  EXPECT_EQ(std::system(("promtool check metrics < " + file).c_str()), 0) << page;
}

TEST(Metrics, CountersOfASlotOutliveItsTenants) {
  ServiceRig rig(1);
  rig.OnLoop([&] { rig.service->Start(); });
  double before = 0;
  for (int round = 0; round < 2; ++round) {
    {
      VoiceTestClient client(rig);
      client.Await("hello");
      client.Send({{"type", "start"}});
      client.Await("stats");
      client.Send({{"type", "bye"}});
      EXPECT_EQ(client.AwaitEnd().code, 1000);
    }
    ASSERT_TRUE(rig.Eventually(
        [&] { return Value(rig.Get("/metrics").body, "antiphon_slots_free") == 1; }));
    const double frames = Value(rig.Get("/metrics").body, "antiphon_frames_total{slot=\"0\"}");
    EXPECT_GE(frames, before + 12);
    before = frames;
  }
}

TEST(Health, IsFalseWhileTheEngineHangsAndTrueAfterwards) {
  ServiceRig rig(1);
  EXPECT_EQ(rig.Get("/healthz").status, 503) << "no ticks yet";
  rig.OnLoop([&] { rig.service->Start(); });
  ASSERT_TRUE(rig.Eventually([&] { return rig.Get("/healthz").status == 200; }));
  EXPECT_EQ(rig.Get("/readyz").status, 200);
  VoiceTestClient client(rig);
  client.Await("hello");
  client.Send({{"type", "start"}});
  client.Await("ready");
  rig.engine.hang = true;
  ASSERT_TRUE(rig.Eventually([&] { return rig.Get("/healthz").status == 503; }));
  EXPECT_EQ(rig.Get("/readyz").status, 503);
  EXPECT_EQ(Value(rig.Get("/metrics").body, "antiphon_healthy"), 0);
  rig.engine.hang = false;
  EXPECT_TRUE(rig.Eventually([&] { return rig.Get("/healthz").status == 200; }));
}

TEST(Health, ReadyIsFalseWhileDrainingAndSaysWhenToComeBack) {
  VoiceServiceOptions options;
  options.drain_grace = 10min;
  ServiceRig rig(2, options);
  rig.OnLoop([&] { rig.service->Start(); });
  VoiceTestClient client(rig);
  client.Await("hello");
  rig.OnLoop([&] { rig.service->Drain([] {}); });
  const HttpAnswer answer = rig.Get("/readyz");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "draining\n");
  EXPECT_EQ(answer.headers.at("Retry-After"), "2");
  EXPECT_EQ(rig.Get("/healthz").status, 200);
  EXPECT_EQ(Value(rig.Get("/metrics").body, "antiphon_draining"), 1);
}

}  // namespace
}  // namespace antiphon::daemon
