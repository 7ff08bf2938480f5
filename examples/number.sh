# Sourced by the scripts of the examples.

# number FILE KEY...: the number at this path of a JSON file that has one key a line.
number() {
  local file=$1
  shift
  awk -v path="$*" '
    BEGIN { n = split(path, keys, " ") }
    at < n && index($0, "\"" keys[at + 1] "\":") { at++; if (at == n) { gsub(/[^0-9.e-]/, "", $2); print $2; exit } }' \
    "$file"
}
