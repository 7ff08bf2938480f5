#!/usr/bin/env bash
# old_glibc.sh VERSION FOLDER: makes libraries to link with that have of this machine's C library what it had in VERSION,
# under the versions that it had then. What came later is not in them: the linker names it, and new_in_glibc.cpp
# may have it. Nothing of them is in the program, which finds the C library of the machine that it runs on.
set -euo pipefail
oldest=$1 folder=$2
mkdir -p "$folder"
cxx=${CXX:-c++}

# stub NAME LIBRARY PART REAL: a library called LIBRARY of those names of the library REAL that once were in PART of the C
# library; much has moved since. Of a name with several versions, it has the newest that is old enough.
stub() {
  local name=$1 library=$2 part=$3 real=$4
  local script=$folder/$name.map source=$folder/$name.s
  readelf -W --dyn-syms "$("$cxx" -print-file-name="$real")" |
    awk -v oldest="$oldest" -v part="$part" -v script="$script" -v source="$source" '
      function number(version, parts) { split(version, parts, "."); return parts[1] * 1000000 + parts[2] * 1000 + parts[3] }
      $7 != "UND" && $8 ~ /@+GLIBC_[0-9.]+$/ && $4 ~ /^(FUNC|IFUNC|OBJECT)$/ && $5 != "LOCAL" {
        version = $8; sub(/.*@GLIBC_/, "", version)
        symbol = $8; sub(/@.*/, "", symbol)
        if (number(version) > number(oldest)) { if ($8 ~ /@@/) moved[symbol] = 1; next }
        if (!(symbol in best) || number(version) > number(best[symbol])) {
          best[symbol] = version; kind[symbol] = $4; bind[symbol] = $5; size[symbol] = $3 + 0; place[symbol] = $2
        }
      }
      END {
        for (symbol in best) {
          home = "c"
          if (symbol in moved && symbol ~ /^_*dl/) home = "dl"
          if (symbol in moved && symbol ~ /^_*(pthread|sem|cnd|mtx|thrd|tss)_|^call_once$/) home = "pthread"
          if (symbol in moved && symbol ~ /^_*(aio|lio|mq|shm|timer)_/) home = "rt"
          if (symbol in moved && symbol ~ /^_*(res|dn|ns|inet|gai|getaddrinfo_a|openpty|forkpty|log)/) continue  # elsewhere
          if (home != part) continue
          nodes[best[symbol]] = nodes[best[symbol]] symbol ";"
          is_object = kind[symbol] == "OBJECT"
          if (!is_object) size[symbol] = 1
          printf ".%s %s\n", bind[symbol] == "WEAK" ? "weak" : "globl", symbol > source
          printf ".type %s, %s\n", symbol, is_object ? "@object" : "@function" > source
          printf ".size %s, %d\n", symbol, size[symbol] > source
          if (is_object) {
            labels[place[symbol]] = labels[place[symbol]] symbol ":\n"
            if (size[symbol] > room[place[symbol]]) room[place[symbol]] = size[symbol]
          } else {
            printf ".text\n%s: .skip 1\n", symbol > source
          }
        }
        # Two names of one object have one place here too, and the weaker one is weak: by that the linker knows that a program
        # which has the one (environ) for its own has the other (__environ), which the C library sets.
        for (at in labels) printf ".data\n.balign 16\n%s.skip %d\n", labels[at], room[at] > source
        others = "local: *;"
        for (version in nodes) {
          printf "GLIBC_%s { global: %s %s };\n", version, nodes[version], others > script
          others = ""
        }
        print ".section .note.GNU-stack,\"\",@progbits" > source
      }'
  "$cxx" -shared -nostdlib -Wl,-soname,"$library" -Wl,--version-script,"$script" -o "$folder/lib$name.stub.so" \
    -x assembler "$source"
  rm "$script" "$source"
}

stub c libc.so.6 c libc.so.6
stub m libm.so.6 c libm.so.6
stub pthread libpthread.so.0 pthread libc.so.6
stub dl libdl.so.2 dl libc.so.6
stub rt librt.so.1 rt libc.so.6

# What -lc, -lm and the others find.
static=$("$cxx" -print-file-name=libc_nonshared.a) loader=$("$cxx" -print-file-name=ld-linux-x86-64.so.2)
threads="$folder/libpthread.stub.so $folder/libdl.stub.so $folder/librt.stub.so"
echo "GROUP ( $folder/libc.stub.so $static $threads AS_NEEDED ( $loader ) )" >"$folder/libc.so"
echo "GROUP ( $folder/libm.stub.so )" >"$folder/libm.so"
for name in pthread dl rt; do echo "GROUP ( $folder/lib$name.stub.so )" >"$folder/lib$name.so"; done
