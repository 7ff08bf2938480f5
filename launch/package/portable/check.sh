#!/usr/bin/env bash
# check.sh VERSION PROGRAM...: fails, and says why, where a program needs more of a machine than a C library of that version.
set -euo pipefail
oldest=$1
shift
status=0
for program in "$@"; do
  dynamic=$(readelf -W -d "$program")
  for library in $(sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' <<<"$dynamic"); do
    case $library in
      libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-x86-64.so.2) ;;
      *) echo "$program needs $library" && status=1 ;;
    esac
  done
  versions=$(readelf -W -V "$program" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -uV)
  newest=$(printf '%s\n' "$versions" "$oldest" | sort -V | tail -n 1)
  if [ "$newest" != "$oldest" ]; then
    echo "$program needs glibc $newest, for:"
    readelf -W --dyn-syms "$program" | awk -v oldest="$oldest" '
      function number(version, parts) { split(version, parts, "."); return parts[1] * 1000 + parts[2] }
      $7 == "UND" && $8 ~ /@GLIBC_/ { version = $8; sub(/.*GLIBC_/, "", version)
                                      if (number(version) > number(oldest)) print "  " $8 }'
    status=1
  fi
done
exit $status
