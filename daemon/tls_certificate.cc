#include "daemon/tls_certificate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <set>

#include "engine/error.h"

namespace antiphon::daemon {
namespace {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>>;
using File = std::unique_ptr<FILE, Freer<fclose>>;

constexpr long kDay_s = 86400;
constexpr long kValid_days = 820;

void Require(bool good, const char* step) {
  if (!good) throw InputError(std::string("self-signed certificate: OpenSSL failed to ") + step);
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Subject alternative names in OpenSSL's notation: "DNS:localhost,IP:127.0.0.1".
std::string AlternativeNames() {
  std::set<std::string> names = {"DNS:localhost", "IP:127.0.0.1", "IP:::1"};
  const std::string host = HostName();
  if (!host.empty() && host.find_first_of(", :") == std::string::npos) names.insert("DNS:" + host);
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) == 0) {
    for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
      char text[INET6_ADDRSTRLEN] = {};
      if (at->ifa_addr == nullptr) continue;
      if (at->ifa_addr->sa_family == AF_INET) {
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text,
                  sizeof(text));
      } else if (at->ifa_addr->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr, text,
                  sizeof(text));
      }
      if (text[0] != '\0') names.insert(std::string("IP:") + text);
    }
    freeifaddrs(first);
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return list;
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  Require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1,
          "name the hosts");
}

Certificate MakeCertificate(EVP_PKEY* key) {
  Certificate certificate(X509_new());
  X509* const x = certificate.get();
  Require(x != nullptr, "make a certificate");
  uint64_t serial = 0;
  Require(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1, "draw");
  X509_set_version(x, 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -kDay_s);  // for clocks that are behind ours
  X509_gmtime_adj(X509_getm_notAfter(x), (kValid_days - 1) * kDay_s);
  X509_set_pubkey(x, key);
  const std::string name = "Antiphon on " + HostName();
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.substr(0, 64).c_str()), -1,
                             -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name(x));
  AddExtension(x, NID_subject_alt_name, AlternativeNames());
  AddExtension(x, NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(x, NID_ext_key_usage, "serverAuth");
  Require(X509_sign(x, key, EVP_sha256()) > 0, "sign");
  return certificate;
}

// Written beside and renamed, so that a half-written file is never found.
template <class Write>
void WriteFile(const std::string& path, mode_t mode, Write write) {
  const std::string part = path + ".part";
  unlink(part.c_str());
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) throw InputError(part + ": expected a writable folder, found none");
  File file(fdopen(fd, "w"));
  const bool written = file != nullptr && write(file.get()) == 1 && fflush(file.get()) == 0;
  file.reset();
  if (!written || rename(part.c_str(), path.c_str()) != 0) {
    throw InputError(path + ": expected to write it, found the folder full or read-only");
  }
}

bool StillValid(const CertificateFiles& files) {
  const File key_file(fopen(files.private_key.c_str(), "re"));
  const File file(fopen(files.certificate.c_str(), "re"));
  if (file == nullptr || key_file == nullptr) return false;
  const Certificate certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr));
  const Key key(PEM_read_PrivateKey(key_file.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr || key == nullptr) return false;
  time_t tomorrow = time(nullptr) + kDay_s;
  return X509_check_private_key(certificate.get(), key.get()) == 1 &&
         X509_cmp_time(X509_get0_notAfter(certificate.get()), &tomorrow) > 0;
}

}  // namespace

std::string StateFolder() {
  const auto variable = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  // systemd may list several folders, with colons between.
  const std::string given = variable("STATE_DIRECTORY");
  if (!given.empty()) return given.substr(0, given.find(':'));
  const std::string state = variable("XDG_STATE_HOME");
  if (!state.empty()) return state + "/antiphon";
  return variable("HOME") + "/.local/state/antiphon";
}

CertificateFiles SelfSignedCertificate(const std::string& folder) {
  CertificateFiles files{folder + "/certificate.pem", folder + "/private_key.pem"};
  if (StillValid(files)) return files;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const Key key(EVP_EC_gen("P-256"));
  Require(key != nullptr, "make a key");
  const Certificate certificate = MakeCertificate(key.get());
  WriteFile(files.private_key, 0600, [&](FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  WriteFile(files.certificate, 0644,
            [&](FILE* file) { return PEM_write_X509(file, certificate.get()); });
  return files;
}

}  // namespace antiphon::daemon
