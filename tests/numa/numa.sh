#!/bin/bash
# numa.sh PLACED PLACED_TOKENS HGA: boot a machine of two nodes (an emulated one, so that no time counts) and print what
# `placed` and `placed_tokens` say there. Needs Debian's qemu-system-x86, busybox-static and cpio; takes the kernel from
# a package that it unpacks and does not install. About five minutes.
set -euo pipefail
placed=$(realpath "$1") placed_tokens=$(realpath "$2") hga=$(realpath "$3")
for need in qemu-system-x86_64 busybox cpio; do
    command -v $need >/dev/null || { echo "numa.sh: $need is missing: apt-get install qemu-system-x86 busybox-static cpio" >&2; exit 1; }
done
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
cd "$room"

# ---- a kernel ----

name=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
apt-get -o APT::Sandbox::User=root download -qq "$name" >&2
dpkg-deb -x linux-image-*.deb kernel

# ---- a file system in memory ----

mkdir -p root/{bin,lib,lib64,proc,sys,dev,tmp}
cp "$(command -v busybox)" root/bin/busybox
cp "$placed" root/bin/placed
cp "$placed_tokens" root/bin/placed_tokens
cp "$hga" root/bin/hga
ldd "$placed" "$placed_tokens" "$hga" | awk '/=> \// {print $3}' | sort -u | while read -r library; do cp -L "$library" root/lib/; done
cp -L /lib64/ld-linux-x86-64.so.2 root/lib64/
strip root/bin/placed root/bin/placed_tokens root/bin/hga root/lib/*
cat >root/init <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
export PATH=/bin LD_LIBRARY_PATH=/lib HGA_ISA=ref # plain code is the fastest here
echo 0 >/proc/sys/kernel/numa_balancing
hga topo
for bound in OMP_PROC_BIND=true OMP_PLACES=cores GOMP_CPU_AFFINITY=0-3; do
    env $bound placed window 2048 | sed "s/^/$bound: /"
done
for huge in never always; do
    echo $huge >/sys/kernel/mm/transparent_hugepage/enabled
    for words in window htransformer "hsa branching=16,16,16" bpt dense; do
        n=4096
        [ "$words" = dense ] && n=1024
        for heap in "" used; do
            echo "huge pages $huge, heap ${heap:-fresh}: $(placed "$words" $n $heap 2>&1)"
        done
    done
done
# what comes later, one thread a core under OpenMP's own binding
export OMP_PROC_BIND=true OMP_PLACES=cores
for huge in never always; do
    echo $huge >/sys/kernel/mm/transparent_hugepage/enabled
    for heap in "" used; do
        say() { echo "huge pages $huge, heap ${heap:-fresh}, $1: $2"; }
        for words in chosen leaves; do say "updated" "$(placed $words 4096 $heap updated 2>&1)"; done
        for words in htransformer "hsa branching=16,16,16"; do say "grown" "$(placed "$words" 4096 $heap grown 2>&1)"; done
        for words in "window left=256 right=0 causal=1" "htransformer causal=1" fenwick "dense causal=1"; do
            say "token by token" "$(placed_tokens "$words" 8192 $heap 2>&1)"
        done
    done
done
poweroff -f
END
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet | gzip -1) >initrd.gz

# ---- the machine ----

node() { echo "-object memory-backend-ram,size=1G,id=m$1 -numa node,nodeid=$1,cpus=$2,memdev=m$1"; }
timeout 1500 qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max -smp 4,sockets=2,cores=2,threads=1 -m 2G \
    $(node 0 0-1) $(node 1 2-3) -numa dist,src=0,dst=1,val=21 -kernel kernel/boot/vmlinuz-* -initrd initrd.gz \
    -append "console=ttyS0 quiet panic=-1 mitigations=off" -nographic -no-reboot -net none </dev/null |
    tr -d '\r' | grep --line-buffered -E '^(this|domain|huge|OMP|GOMP|.*: error)'
