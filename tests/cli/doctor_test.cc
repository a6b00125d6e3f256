// What the doctor says of machines that are made of files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/doctor_checks.h"
#include "daemon/tls_certificate.h"

namespace antiphon::cli {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

class DoctorTest : public ::testing::Test {
 protected:
  DoctorTest() : root(testing::TempDir() + "antiphon_doctor_" + std::to_string(getpid())) {
    fs::remove_all(root);
    fs::create_directories(root);
  }
  ~DoctorTest() override { fs::remove_all(root); }
  void Write(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root + file).parent_path());
    std::ofstream(root + file) << text;
  }
  const std::string root;
};

TEST_F(DoctorTest, GovernorsAreCounted) {
  EXPECT_EQ(CheckGovernor(root).level, Level::kOk);
  Write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  EXPECT_EQ(CheckGovernor(root).level, Level::kOk);
  Write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
  const Finding finding = CheckGovernor(root);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_NE(finding.what.find("powersave on 1 of 2 cores"), std::string::npos) << finding.what;
  EXPECT_FALSE(finding.remedy.empty());
}

TEST_F(DoctorTest, SlowClocksAreNamed) {
  const std::string file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  Write(file, "tsc\n");
  EXPECT_EQ(CheckClockSource(root).level, Level::kOk);
  Write(file, "hpet\n");
  EXPECT_EQ(CheckClockSource(root).level, Level::kWarning);
}

TEST_F(DoctorTest, AGpuNeedsItsDriverAndItsNodes) {
  EXPECT_EQ(CheckGpu(root).level, Level::kOk);
  Write("/dev/nvidia0", "");
  EXPECT_EQ(CheckGpu(root).level, Level::kFault);
  Write("/proc/driver/nvidia/version", "NVRM version: 550.1\n");
  EXPECT_EQ(CheckGpu(root).level, Level::kOk);
  fs::remove(root + "/dev/nvidia0");
  EXPECT_EQ(CheckGpu(root).level, Level::kFault);
}

TEST_F(DoctorTest, NoSoundCardIsNoFault) {
  EXPECT_EQ(CheckSound(root).level, Level::kWarning);
  Write("/dev/snd/pcmC0D0p", "");
  EXPECT_EQ(CheckSound(root).level, Level::kOk);
}

TEST_F(DoctorTest, PortsCertificatesAndModels) {
  EXPECT_EQ(CheckPort("127.0.0.1:0").level, Level::kOk);
  EXPECT_EQ(CheckPort("192.0.2.1:80").level, Level::kFault) << "not an address of this machine";
  const daemon::CertificateFiles files = daemon::SelfSignedCertificate(root);
  EXPECT_EQ(CheckCertificate(files.certificate).level, Level::kOk);
  EXPECT_EQ(CheckCertificate(files.private_key).level, Level::kFault);
  EXPECT_EQ(CheckCertificate(root + "/none.pem").level, Level::kFault);
  EXPECT_EQ(CheckModel("embedded").level, Level::kOk) << CheckModel("embedded").what;
  EXPECT_EQ(CheckModel(root).level, Level::kFault);
  EXPECT_EQ(CheckAll({}, root).size(), 8U);
}

}  // namespace
}  // namespace antiphon::cli
