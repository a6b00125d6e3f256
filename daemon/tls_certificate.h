// A self-signed certificate, so that browsers on the local network get a secure context.
#pragma once

#include <string>

namespace antiphon::daemon {

struct CertificateFiles {
  std::string certificate, private_key;  // PEM
};

// $STATE_DIRECTORY, else $XDG_STATE_HOME/antiphon, else ~/.local/state/antiphon.
std::string StateFolder();

// The certificate kept in `folder`; made, or made again, if there is none that is valid for another
// day. EC P-256, 820 days (browsers refuse more than 825), for localhost, this host's name and its
// addresses; the key file is readable by its owner only. Throws InputError naming the file.
CertificateFiles SelfSignedCertificate(const std::string& folder);

}  // namespace antiphon::daemon
