# shellcheck shell=bash
#
# Paths to values. A path is a sequence of keys separated by dots, such as global.teams.0 or
# snapshots."my pods".0.filterResult. A key with characters that have a meaning in paths or jq filters, such as dots, blanks
# and brackets, must be in single or double quotes. A number is an index if the value before it is an array; [0] is the same
# as .0. The functions get, is_true, is_false, is_null and array_has also accept a jq filter without its first dot:
# 'web.hosts[] | .name' runs the filter '.web.hosts[] | .name'. With --required, get accepts only a path.

# Separates the keys of a path in the text that jq gets.
_path_separator=$'\x1f'

# jq definitions: down($path) returns the value at the keys in $path, and has_key($k) reports whether a value has key $k.
_path_at='def at($k): if type == "array" and ($k | test("^[0-9]+$")) then .[$k | tonumber] else .[$k] end;
  def down($p): reduce ($p / "\u001f")[] as $k (.; at($k));'
_path_has='def has_key($k): if type == "array" then ($k | test("^[0-9]+$")) and ($k | tonumber) < length
    elif type == "object" then has($k) else false end;'

# _path::split PATH sets keys to the keys of PATH. It fails if PATH is not a path, for example if it is a jq filter.
_path::split() {
  local rest=${1#.}
  local bare='^([^]["'\''.|(),?*$;=<>{}[:space:]]+)(.*)$'
  local quoted='^"([^"]*)"(.*)$' single="^'([^']*)'(.*)\$" index='^\[([0-9]+)\](.*)$' named='^\["([^"]*)"\](.*)$'
  keys=()
  while [[ -n $rest ]]; do
    if [[ $rest =~ $quoted || $rest =~ $single || $rest =~ $bare || (${#keys[@]} -gt 0 && $rest =~ $index) || $rest =~ $named ]]; then
      keys+=("${BASH_REMATCH[1]}")
      rest=${BASH_REMATCH[2]}
    else
      return 1
    fi
    case $rest in
      '' | '['*) ;;
      .?*) rest=${rest#.} ;;
      *) return 1 ;;
    esac
  done
}

# _path::join KEYS… sets joined to the keys with separators between them, for jq.
_path::join() {
  local IFS=$_path_separator
  joined="$*"
}

# _path::read COMMAND [OPTION]… PATH SUFFIX runs COMMAND, a function that calls jq. The filter for jq selects the
# value at PATH and ends with SUFFIX.
_path::read() {
  local suffix=${*: -1} path=${*: -2:1}
  local -a command=("${@:1:$#-2}") keys
  local joined
  if ! _path::split "$path"; then
    "${command[@]}" ".${path//\'/\"} $suffix"
  elif ((${#keys[@]} == 0)); then
    "${command[@]}" ". $suffix"
  else
    _path::join "${keys[@]}"
    "${command[@]}" --arg path "$joined" "$_path_at down(\$path) $suffix"
  fi
}

# _path::has COMMAND… PATH succeeds if there is a value at PATH, including null. COMMAND is a function that calls jq.
_path::has() {
  local path=${*: -1}
  local -a command=("${@:1:$#-1}") keys
  local joined key
  if ! _path::split "$path" || ((${#keys[@]} == 0)); then
    hook::_fail "${path@Q} is not a path: separate keys with dots, and quote keys that contain other characters"
    return 2
  fi
  key=${keys[-1]}
  unset 'keys[-1]'
  _path::join "${keys[@]}"
  local down='down($path) |'
  ((${#keys[@]} > 0)) || down=
  "${command[@]}" -e --arg path "$joined" --arg key "$key" \
    "$_path_at $_path_has (try ($down has_key(\$key)) catch false)" >/dev/null
}

# _path::pointer PATH sets pointer to PATH as a JSON pointer (RFC 6901), for patches.
_path::pointer() {
  local -a keys
  local key
  if ! _path::split "$1" || ((${#keys[@]} == 0)); then
    hook::_fail "${1@Q} is not a path: separate keys with dots, and quote keys that contain other characters"
    return 1
  fi
  pointer=
  for key in "${keys[@]}"; do
    key=${key//'~'/'~0'}
    pointer+=/${key//'/'/'~1'}
  done
}
