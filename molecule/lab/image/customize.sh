#!/bin/sh
# Finishes the root file system of a lab host; mmdebstrap runs it with the root directory as its argument.
set -eu
root=$1
here=$(dirname "$0")

packages=$(grep -v '^#' "$here/repository.txt")
# shellcheck disable=SC2086 -- a list of words
"$here/apt_repository.sh" "$root" $packages

# A system's own file may be a link to nothing yet.
cp -R --remove-destination "$here/files/." "$root/"
chroot "$root" apt-get --quiet=2 update
rm -f "$root/etc/hostname"
# NVML, for whatever asks the loader for it: the stand-in that shows the host's GPUs.
ln -s /opt/lab/lib/libnvidia-ml.so.1 "$root/usr/lib/libnvidia-ml.so.1"

# Every host makes its own keys at first boot.
rm -f "$root"/etc/ssh/ssh_host_*
# No terminals to serve, and a privileged container would take those of the machine it runs on.
for unit in getty.target console-getty.service systemd-logind.service apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer e2scrub_all.timer systemd-timesyncd.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
chroot "$root" systemctl --quiet enable lab-host.service lab-ssh-keys.service ssh.service

# The ordinary users that a site's directory would provide. "*" locks the password, not the account.
chroot "$root" useradd --uid 2001 --user-group --create-home --shell /bin/bash --password '*' alice
chroot "$root" useradd --uid 2002 --user-group --create-home --shell /bin/bash --password '*' bob
# The operator's ordinary user, for the scenarios that log in as one.
chroot "$root" useradd --uid 2003 --user-group --groups sudo --create-home --shell /bin/bash --password '*' ops
echo 'ops ALL=(ALL:ALL) NOPASSWD: ALL' | install -m 0440 /dev/stdin "$root/etc/sudoers.d/ops"
: >"$root/etc/machine-id"
