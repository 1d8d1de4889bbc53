#!/bin/sh
# Finishes the root file system of a lab machine; mmdebstrap runs it with the root directory as its argument.
# LAB_PACKAGES: what the machines can install. LAB_KEY: the public key that may log in.
set -eu
root=$1
here=$(dirname "$0")
containers=$here/../image

# shellcheck disable=SC2086 -- a list of words
"$containers/apt_repository.sh" "$root" $LAB_PACKAGES
for shared in apt default hosts resolv.conf systemd/system/lab-ssh-keys.service; do
    cp -RT --remove-destination "$containers/files/etc/$shared" "$root/etc/$shared"
done
chroot "$root" apt-get --quiet=2 update

install -d -m 700 "$root/root/.ssh"
install -m 600 "$LAB_KEY" "$root/root/.ssh/authorized_keys"
# Every machine makes its own at first boot.
rm -f "$root/etc/hostname" "$root"/etc/ssh/ssh_host_*
for unit in getty@.service serial-getty@.service systemd-logind.service apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service systemd-timesyncd.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
chroot "$root" systemctl --quiet enable lab-ssh-keys.service ssh.service systemd-networkd.service
: >"$root/etc/machine-id"
