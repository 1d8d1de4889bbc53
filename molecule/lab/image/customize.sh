#!/bin/sh
# Finishes the root file system of a lab host; mmdebstrap runs it with the root directory as its argument.
set -eu
root=$1
here=$(dirname "$0")

# The debs lie in the image, so that roles really install packages while the lab has no way to the internet.
packages=$(grep -v '^#' "$here/repository.txt")
mkdir -p "$root/opt/apt/partial"
# shellcheck disable=SC2086 -- a list of words
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --yes --quiet=2 --download-only --no-install-recommends \
    -o Dir::Cache::archives="$root/opt/apt" install $packages
rm -rf "$root/opt/apt/partial" "$root/opt/apt/lock"
for deb in "$root"/opt/apt/*.deb; do
    dpkg-deb --field "$deb"
    echo "Filename: ./${deb##*/}"
    echo "Size: $(stat -c %s "$deb")"
    echo "SHA256: $(sha256sum <"$deb" | cut -d' ' -f1)"
    echo
done >"$root/opt/apt/Packages"
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/var/lib/apt/lists/*

cp -R "$here/files/." "$root/"
chroot "$root" apt-get --quiet=2 update
rm -f "$root/etc/hostname"

# Every host makes its own keys at first boot.
rm -f "$root"/etc/ssh/ssh_host_*
# No terminals to serve, and a privileged container would take those of the machine it runs on.
for unit in getty.target console-getty.service systemd-logind.service apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer e2scrub_all.timer systemd-timesyncd.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
chroot "$root" systemctl --quiet enable lab-host.service lab-ssh-keys.service ssh.service

# The ordinary user that a site's directory would provide. "*" locks the password, not the account.
chroot "$root" useradd --uid 2001 --user-group --create-home --shell /bin/bash --password '*' alice
: >"$root/etc/machine-id"
