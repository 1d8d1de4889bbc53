#!/bin/sh
# Limits what this host reads from and writes to what is mounted at /checkpoints, in bytes a second. Needs the blkio
# controller of cgroup v1, or systemd's use of v2's.
set -eu
host=$1 bytes=$2
device=$(awk '$5 == "/checkpoints" { found = $3 } END { print found }' /proc/self/mountinfo)
place=/run/lab-blkio
mkdir -p "$place"
if mountpoint -q "$place" || mount -t cgroup -o blkio blkio "$place"; then
    group=$place/muster-lab-$host
    mkdir -p "$group"
    for way in read write; do
        echo "$device $bytes" > "$group/blkio.throttle.${way}_bps_device"
    done
    # All that runs, and all that these start later.
    for process in /proc/[0-9]*; do
        echo "${process#/proc/}" > "$group/cgroup.procs" || test ! -d "$process"
    done
else
    mkdir -p /etc/systemd/system/slurmd.service.d
    printf '[Service]\nIOReadBandwidthMax=/checkpoints %s\nIOWriteBandwidthMax=/checkpoints %s\n' "$bytes" "$bytes" \
        > /etc/systemd/system/slurmd.service.d/lab-limit.conf
    systemctl daemon-reload
fi
