#!/bin/busybox sh
# Process 1 of the virtual machine: makes a small Linux, runs the scenarios, tells what it saw on the second serial line, ends.
/bin/busybox mkdir -p /proc /sys /dev /tmp /disk /etc
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
# files must lie on a disk: pages of a file system in memory cannot be reclaimed
mke2fs -q /dev/nvme0n1 && mount -t ext4 /dev/nvme0n1 /disk && chmod 777 /disk /tmp
echo 'root:x:0:0::/:/bin/sh
builder:x:1000:1000::/tmp:/bin/sh' >/etc/passwd
echo 'root:x:0:
builder:x:1000:' >/etc/group
stty -F /dev/ttyS1 raw
exec >/dev/ttyS1
. /scenarios.sh
echo "@done"
sync
poweroff -f
