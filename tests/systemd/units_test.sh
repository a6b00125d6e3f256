#!/usr/bin/env bash
# units_test.sh SOURCE BUILD: units are clean, the sandbox is tight, users and folders are made, manual pages parse.
set -euo pipefail
source=$1 build=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export XDG_RUNTIME_DIR=$place
mkdir "$place/user"
sed "s|/usr/bin/antiphond|$build/antiphond|" "$source/systemd/antiphond.service" > "$place/antiphond.service"
sed "s|/usr/bin/antiphond|$build/antiphond|g" "$source/systemd/user/antiphond.service" > "$place/user/antiphond.service"
cp "$source/systemd/antiphond.socket" "$place"
systemd-analyze verify --man=no "$place/antiphond.service" "$place/antiphond.socket"
systemd-analyze verify --man=no --user "$place/user/antiphond.service"
systemd-analyze security --offline=true --threshold=20 --no-pager "$place/antiphond.service" | tail -1

root=$place/root
mkdir -p "$root/usr/lib/sysusers.d" "$root/usr/lib/tmpfiles.d" "$root/etc"
cp "$source/systemd/antiphond.sysusers" "$root/usr/lib/sysusers.d/antiphon.conf"
cp "$source/systemd/antiphond.tmpfiles" "$root/usr/lib/tmpfiles.d/antiphon.conf"
echo 'g audio 29' > "$root/usr/lib/sysusers.d/basic.conf"
systemd-sysusers --root="$root"
grep -q '^antiphon:.*:/var/lib/antiphon:' "$root/etc/passwd"
grep -q '^audio:.*antiphon' "$root/etc/group"
if [ "$(id -u)" = 0 ]; then
  systemd-tmpfiles --root="$root" --create antiphon.conf
  [ "$(stat -c %a "$root/var/lib/antiphon")" = 700 ]
fi
if command -v mandoc >/dev/null; then mandoc -T lint -W warning "$source"/systemd/antiphond.8 "$source"/systemd/antiphon.1; fi
echo "units passed"
