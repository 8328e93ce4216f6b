#!/bin/sh
# Builds the stand-ins for libcuda.so.1 and libcufile.so.0, and libcufile-1.14.so.0, which has no statistics.
# usage: gpu.sh DIRECTORY
set -eu
here=$(dirname "$0")
# They stay in the process that has loaded them: their threads outlive a dlclose.
build() {
    name=$1
    soname=$2
    shift 2
    ${CC:-cc} -std=gnu11 -O2 -g -fPIC -shared -pthread -Wall -Wextra -Werror -fvisibility=hidden \
        -Wl,-soname,"$soname" -Wl,-z,nodelete -Wl,-z,defs -o "$out/$name" "$@"
}
mkdir -p "$1"
out=$(cd "$1" && pwd)
build libcuda.so.1 libcuda.so.1 "$here/cuda.c" "$here/cuda_streams.c"
for name in libcufile.so.0 libcufile-1.14.so.0; do
    defines=-DSTATISTICS
    [ $name = libcufile.so.0 ] || defines=-USTATISTICS
    build $name libcufile.so.0 $defines "$here/cufile.c" "$here/cufile_batch.c" "$here/cufile_stats.c" \
        "$out/libcuda.so.1" -Wl,-rpath,"\$ORIGIN"
done
