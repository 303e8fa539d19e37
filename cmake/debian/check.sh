#!/bin/bash
# Builds the Debian packages apart and asks lintian, which must find no error: check.sh SOURCE BUILD
# Then a program is compiled against what they hold.
set -euo pipefail
source=$1 build=$2
command -v lintian >/dev/null || { echo "lintian is missing: apt-get install lintian" >&2; exit 4; }

cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_SHARED_LIBS=ON -DHGA_TESTS=OFF
cmake --build "$build" --parallel "$(nproc)"
rm -f "$build"/*.deb
(cd "$build" && cpack -G DEB)
ls -l "$build"/*.deb
lintian --allow-root --fail-on error --tag-display-limit 0 "$build"/*.deb

echo "== a program against the packages' files"
root=$build/root
rm -rf "$root"
for package in "$build"/*.deb; do dpkg-deb --extract "$package" "$root"; done
folder=$(dirname "$(find "$root/usr/lib" -name libhga.so)")
export PKG_CONFIG_PATH=$folder/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs hga)"
"${CC:-cc}" "$source/tests/package/use.c" -o "$build/use" "${flags[@]}" -lm
LD_LIBRARY_PATH=$folder "$build/use"
read -ra flags <<<"$(pkg-config --cflags --libs hga-files)"
"${CC:-cc}" "$source/tests/package/use_files.c" -o "$build/use_files" "${flags[@]}"
(cd "$build" && LD_LIBRARY_PATH=$folder ./use_files)
LD_LIBRARY_PATH=$folder "$root/usr/bin/hga" --version
