#!/bin/sh
# Rebuilds every guest program into bin/.  Needs clang and lld (Debian: clang lld).
# The result is the same bytes whenever the compiler is the same.
set -eu
cd "$(dirname "$0")"
mkdir -p bin

# FreeBSD's target makes lld mark the files EI_OSABI = FreeBSD.  Two segments,
# text with the headers at 0x8000 and data behind it, as FreeBSD/arm programs
# of 2010 have them, and like them without a PT_GNU_STACK: sigcode is executed on
# the stack.
cc="clang --target=armv5te-unknown-freebsd -marm -mfloat-abi=soft -O2 -ffreestanding
    -fno-builtin -fno-pic -fno-unwind-tables -fno-asynchronous-unwind-tables
    -fno-ident -ffunction-sections -fdata-sections -Wall -Wextra -Werror
    -nostdlib -fuse-ld=lld"
ld="-Wl,-s,--build-id=none,--gc-sections,--no-rosegment,-z,norelro,-z,max-page-size=4096,-z,nognustack"

# program NAME SOURCE...: a static program at FreeBSD/arm's usual address.
program() {
    name=$1
    shift
    $cc -static $ld -Wl,--image-base=0x8000 "$@" start.S sys.c -o "bin/$name"
}

program testsimple   -DWORDS=5 testsimple.c loop.S
program testsimple4  -DWORDS=4 testsimple.c loop.S
program testsimple8  -DWORDS=8 testsimple.c loop.S
program testsimple1k -DWORDS=5 -DCROSS testsimple.c loop.S
program cat cat.c
program big -DCOUNT=1024 big.c chain.S
program patchlib patchlib.c
for name in dl selfcheck jit forker pipes args execer sig tracer loop forkbomb bigwrite badptr script limits bench; do
    program $name $name.c
done

# patchlib.code is no ELF file: the bytes of one section and nothing else.
$cc -static -Wl,--oformat=binary,-Ttext=0,--build-id=none patchcode.S -o bin/patchlib.code
chmod 644 bin/patchlib.code

# The shared objects that dl loads.  A library's calls of its own functions go
# through its PLT, as they do with gcc.
library() {
    name=$1
    shift
    $cc -fPIC -fsemantic-interposition -shared $ld -Wl,--hash-style=sysv "$@" -o "bin/$name"
}

library libdemo.so -DCOUNT=160 -DTABLE demo.c chain.S
library liblarge.so -DCOUNT=1024 -DTABLE demo.c chain.S
library libtext.so -Wl,-z,notext textrel.S
