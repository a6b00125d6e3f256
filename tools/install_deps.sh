#!/usr/bin/env bash
# install_deps.sh [LIST...]: makes sure that the Debian packages of the lists (packages.txt) are
# installed: as root installs what is missing, otherwise prints the one command that does. Quiet when
# nothing is missing.
set -euo pipefail
cd "$(dirname "$0")"
missing=()
have_node=0; command -v node >/dev/null && have_node=1
have_npm=0; command -v npm >/dev/null && have_npm=1
while read -r package; do
  case "$package" in ''|'#'*) continue ;; esac
  # A Node.js from another source serves as well as Debian's, and the two exclude each other.
  [ "$package" = nodejs ] && [ $have_node = 1 ] && continue
  [ "$package" = npm ] && [ $have_npm = 1 ] && continue
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done < <(cat "${@:-packages.txt}")
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "These packages are missing. Install them with:" >&2
  echo "  sudo apt-get install -y ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
