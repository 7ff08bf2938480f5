# Sourced by tests that need a Debian of their own.

# clean_system SUITE FOLDER: makes the smallest one that there is, from where this machine's own packages come.
clean_system() {
  local mirror
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE '^(deb|URIs:) .*' |
    grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1) || true
  # shellcheck disable=SC2086
  debootstrap --variant=minbase "$1" "$2" $mirror >"$2.log" || { tail -n 20 "$2.log"; return 1; }
  rm "$2.log"
  local file
  for file in /etc/apt/apt.conf.d/* /etc/resolv.conf; do  # a proxy, where this machine has one
    [ ! -f "$file" ] || cp "$file" "$2$file"
  done
}
