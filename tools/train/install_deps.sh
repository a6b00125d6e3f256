#!/usr/bin/env bash
# Installs what the training tools need on Debian 12. The engine itself needs none of it.
# No scipy here: its package conflicts with libboost1.81-dev, which the daemon is built with.
set -euo pipefail
packages=(
  python3 python3-numpy python3-torch python3-sentencepiece libopenblas0-pthread
  espeak-ng libespeak-ng1 flite libflite1 festival festvox-kallpc16k festvox-kdlpc16k
  festvox-us-slt-hts libopus0 pocketsphinx pocketsphinx-en-us
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "These packages are missing. Install them with:" >&2
  echo "  sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
