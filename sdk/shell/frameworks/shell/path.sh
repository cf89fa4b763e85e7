# shellcheck shell=bash
#
# Paths to values: keys with dots between them, such as global.teams.0 or snapshots."my pods".0.filterResult. A key with
# a dot or a blank in it stands in quotes, single or double. A number is an index where it leads into an array; [0] is the
# same. Where a path is read, it may also be the rest of a jq filter: 'web.hosts[] | .name' is run as '.web.hosts[] | .name'.

# The keys of a path are handed to jq in one text, with this between them.
_path_separator=$'\x1f'

# Steps along the keys in $path. _path_at is for jq 'FILTER' with --arg path TEXT.
_path_at='def at($k): if type == "array" and ($k | test("^[0-9]+$")) then .[$k | tonumber] else .[$k] end;
  def down($p): reduce ($p / "\u001f")[] as $k (.; at($k));'
_path_has='def has_key($k): if type == "array" then ($k | test("^[0-9]+$")) and ($k | tonumber) < length
    elif type == "object" then has($k) else false end;'

# _path::split PATH sets keys to the keys of a path. It fails when the path is something else.
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

# _path::join KEYS… sets joined to the text that hands keys to jq.
_path::join() {
  local IFS=$_path_separator
  joined="$*"
}

# _path::read COMMAND [OPTION]… PATH SUFFIX runs COMMAND, which is jq on some input, with the filter that leads along PATH,
# and SUFFIX behind it.
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

# _path::has COMMAND… PATH tells whether the last key of PATH is there, null or not.
_path::has() {
  local path=${*: -1}
  local -a command=("${@:1:$#-1}") keys
  local joined key
  if ! _path::split "$path" || ((${#keys[@]} == 0)); then
    hook::_fail "${path@Q} is no path: write keys with dots between them, and quote those with other signs in them"
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

# _path::pointer PATH sets pointer to the JSON pointer of a path, as patches have it.
_path::pointer() {
  local -a keys
  local key
  if ! _path::split "$1" || ((${#keys[@]} == 0)); then
    hook::_fail "${1@Q} is no path: write keys with dots between them, and quote those with other signs in them"
    return 1
  fi
  pointer=
  for key in "${keys[@]}"; do
    key=${key//'~'/'~0'}
    pointer+=/${key//'/'/'~1'}
  done
}
