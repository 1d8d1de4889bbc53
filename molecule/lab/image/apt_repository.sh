#!/bin/sh
# Puts packages with all that they need into an apt repository inside a root file system, below its /opt/apt, so that
# roles really install packages while the lab has no way to the internet. A customize hook of mmdebstrap runs it.
set -eu
root=$1
shift

mkdir -p "$root/opt/apt/partial"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --yes --quiet=2 --download-only --no-install-recommends \
    -o Dir::Cache::archives="$root/opt/apt" install "$@"
rm -rf "$root/opt/apt/partial" "$root/opt/apt/lock"
for deb in "$root"/opt/apt/*.deb; do
    dpkg-deb --field "$deb"
    echo "Filename: ./${deb##*/}"
    echo "Size: $(stat -c %s "$deb")"
    echo "SHA256: $(sha256sum <"$deb" | cut -d' ' -f1)"
    echo
done >"$root/opt/apt/Packages"
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/var/lib/apt/lists/*
