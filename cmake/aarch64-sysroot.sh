#!/bin/sh
# aarch64-sysroot.sh FOLDER: Debian's arm64 libraries that hga builds against, unpacked into FOLDER, for cmake/aarch64.cmake. apt resolves and downloads them
# with a state of its own, so that it needs no root and the machine's own packages stay as they are.
# With them comes Python: FOLDER/emulated/python3 starts it by qemu-aarch64, also where it starts itself anew, and makes virtual environments of itself.
set -eu
[ $# = 1 ] || { echo "usage: aarch64-sysroot.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
root=$(cd "$1" && pwd)
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/etc"
touch "$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" >"$apt/etc/sources.list"
get() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::State::lists="$apt/lists" \
        -o Dir::Cache="$apt" -o Dir::Cache::archives="$apt/archives" -o Dir::Etc::sourcelist="$apt/etc/sources.list" -o Dir::Etc::sourceparts=- \
        -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" "$@"
}
get update
get install --download-only --yes --no-install-recommends libc6-dev libgomp1 libgcc-12-dev libsuitesparse-dev libmetis-dev libhwloc-dev libjansson-dev libicu-dev libxml2-dev \
    libzip-dev libmd4c-dev libcmocka-dev libpython3-dev python3-venv python3-cffi-backend
for deb in "$apt"/archives/*.deb; do dpkg-deb -x "$deb" "$root"; done
# Absolute links lead into the folder, wherever it is moved.
find "$root" -type l -lname '/*' | while read -r link; do
    ln -srfn "$root$(readlink "$link")" "$link"
done
for library in blas lapack; do
    to=$(find "$root/usr/lib/aarch64-linux-gnu/$library" -name "lib$library.so.3" 2>/dev/null | head -1)
    [ -z "$to" ] || ln -srfn "$to" "$root/usr/lib/aarch64-linux-gnu/lib$library.so.3"
done
mkdir -p "$root/emulated"
cat >"$root/emulated/python3" <<'end'
#!/bin/sh
root=$(dirname "$(dirname "$(readlink -f "$0")")")
exec qemu-aarch64 -L "$root" -0 "$0" "$root/usr/bin/python3" "$@"
end
chmod +x "$root/emulated/python3"
echo "$root: $(ls "$apt"/archives/*.deb | wc -l) packages"
