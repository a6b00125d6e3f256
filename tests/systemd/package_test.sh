#!/usr/bin/env bash
# package_test.sh BUILD: the .deb has what it must, and installs, upgrades, goes and is purged in a root of its own.
set -euo pipefail
build=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
(cd "$place" && cpack -G DEB --config "$build/CPackConfig.cmake" -B "$place" >/dev/null)
deb=$(ls "$place"/*.deb)
contents=$(dpkg-deb -c "$deb" | awk '{print $6}')
for file in usr/bin/antiphond usr/bin/antiphon etc/antiphon/antiphond.toml lib/systemd/system/antiphond.service \
    lib/systemd/system/antiphond.socket usr/lib/systemd/user/antiphond.service usr/lib/sysusers.d/antiphon.conf \
    usr/lib/tmpfiles.d/antiphon.conf usr/share/man/man8/antiphond.8 usr/share/man/man1/antiphon.1 \
    usr/share/doc/antiphon/OPERATIONS.md usr/share/antiphon/deploy/alerts.yml; do
  grep -qx "./$file" <<<"$contents" || { echo "the package lacks $file"; exit 1; }
done
[ "$(dpkg-deb -I "$deb" conffiles)" = /etc/antiphon/antiphond.toml ]
dpkg-deb -f "$deb" Depends | grep -q libwebsockets-evlib-uv
[ "$(id -u)" = 0 ] || { echo "package passed (contents only: not root)"; exit 0; }

root=$place/root
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/usr/lib/sysusers.d"
touch "$root/var/lib/dpkg/status"
echo 'g audio 29' > "$root/usr/lib/sysusers.d/basic.conf"
dpkg_in() { dpkg --root="$root" --force-script-chrootless --force-depends --force-confold "$@" >>"$place/log" 2>&1 || { cat "$place/log"; exit 1; }; }
dpkg_in -i "$deb"
grep -q 'nothing is started yet' "$place/log"
grep -q '^antiphon:' "$root/etc/passwd"
[ -d "$root/var/lib/antiphon" ]
[ ! -e "$root/etc/systemd/system/multi-user.target.wants" ]
"$root/usr/bin/antiphond" --check-config --config "$root/etc/antiphon/antiphond.toml"
echo '# mine' >> "$root/etc/antiphon/antiphond.toml"
dpkg_in -i "$deb"
grep -q '# mine' "$root/etc/antiphon/antiphond.toml"
dpkg_in -r antiphon
[ ! -e "$root/usr/bin/antiphond" ] && [ -e "$root/etc/antiphon/antiphond.toml" ] && [ -d "$root/var/lib/antiphon" ]
dpkg_in -P antiphon
[ ! -e "$root/etc/antiphon/antiphond.toml" ] && [ ! -e "$root/var/lib/antiphon" ]
echo "package passed"
