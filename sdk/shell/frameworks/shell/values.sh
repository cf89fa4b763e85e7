# shellcheck shell=bash
#
# Reads values and writes patches of them. With --config in front a function is about the ConfigMap's values, else about
# all values, merged. What is set is seen by the next run, not by this one.

# values::jq [--config] ARGUMENT… runs jq on the values.
values::jq() {
  local file=${VALUES_PATH:-}
  while [[ $# -gt 0 && (-z $1 || $1 == --config) ]]; do
    [[ -z $1 ]] || file=${CONFIG_VALUES_PATH:-}
    shift
  done
  jq "$@" "$file"
}

# values::get [--config] [--required] PATH prints what is at PATH: text as it is, all else as JSON, null where there is
# nothing. With --required it fails where there is nothing.
values::get() {
  local required='' config=''
  while [[ ${1:-} == --config || ${1:-} == --required ]]; do
    [[ $1 == --config ]] && config=--config || required=yes
    shift
  done
  if [[ -n $required ]] && ! values::has ${config:+"$config"} "${1:-}"; then
    hook::_fail "values::get: the values have no ${1@Q}, and it is required"
    return 1
  fi
  _path::read values::jq "$config" -r "${1:-}" ''
}

# values::set [--config] PATH VALUE sets PATH to VALUE, which is JSON, or else text; null where VALUE is empty.
values::set() {
  local config='' pointer
  values::_config "$@" || shift
  _path::pointer "$1" || return
  values::json_patch ${config:+"$config"} add "$pointer" "${2-}"
}

# values::unset [--config] PATH removes what is at PATH, if anything is.
values::unset() {
  local config='' pointer
  values::_config "$@" || shift
  _path::pointer "$1" || return
  if values::has ${config:+"$config"} "$1"; then
    values::json_patch ${config:+"$config"} remove "$pointer"
  fi
}

# values::has [--config] PATH succeeds where something is at PATH, if only null.
values::has() {
  local config=''
  values::_config "$@" || shift
  _path::has values::jq "$config" "${1:-}"
}

# values::is_true [--config] PATH and values::is_false [--config] PATH succeed where exactly that is at PATH.
values::is_true() {
  local config=''
  values::_config "$@" || shift
  _path::read values::jq "$config" -e "${1:-}" '== true' >/dev/null
}
values::is_false() {
  local config=''
  values::_config "$@" || shift
  _path::read values::jq "$config" -e "${1:-}" '== false' >/dev/null
}

# values::array_has [--config] PATH TEXT succeeds where an array is at PATH that has TEXT as an element.
values::array_has() {
  local config=''
  values::_config "$@" || shift
  _path::read values::jq "$config" -e --arg text "$2" "$1" '| type == "array" and index([$text]) != null' >/dev/null
}

# values::get_first_defined [--config] PATH… prints what is at the first PATH that has something, and fails if none has.
values::get_first_defined() {
  local config='' path
  values::_config "$@" || shift
  for path in "$@"; do
    if values::has ${config:+"$config"} "$path"; then
      values::get ${config:+"$config"} "$path"
      return
    fi
  done
  return 1
}

# values::require_in_config PATH fails, saying so, where the ConfigMap has nothing at PATH.
values::require_in_config() {
  if ! values::has --config "$1"; then
    hook::_fail "values::require_in_config: $1 is required in the operator's ConfigMap"
    return 1
  fi
}

# values::store::replace_row_by_key [--config] PATH KEY ROW puts the object ROW into the array at PATH: in the place of the
# element that has the same value of KEY, else behind the last.
values::store::replace_row_by_key() {
  local config='' pointer index
  values::_config "$@" || shift
  _path::pointer "$1" || return
  index=$(values::_row ${config:+"$config"} "$@") || return
  if [[ -n $index ]]; then
    values::json_patch ${config:+"$config"} remove "$pointer/$index"
  fi
  values::json_patch ${config:+"$config"} add "$pointer/${index:--}" "$3"
}

# values::store::unset_row_by_key [--config] PATH KEY ROW removes the element that has the same value of KEY as ROW from the
# array at PATH, if there is one.
values::store::unset_row_by_key() {
  local config='' pointer index
  values::_config "$@" || shift
  _path::pointer "$1" || return
  index=$(values::_row ${config:+"$config"} "$@") || return
  if [[ -n $index ]]; then
    values::json_patch ${config:+"$config"} remove "$pointer/$index"
  fi
}

# values::_row [--config] PATH KEY ROW prints the index of the element like ROW, or nothing.
values::_row() {
  local config=''
  values::_config "$@" || shift
  _path::read values::jq "$config" -r --arg key "$2" --argjson row "$3" "$1" \
    '| [.[]? | try .[$key] catch null] | index([$row | .[$key]]) // empty'
}

# values::json_patch [--config] OPERATION POINTER [VALUE] adds an operation to the patch of values: add, remove or test, with
# a JSON pointer (/web/replicas). VALUE is as that of values::set.
values::json_patch() {
  local file=${VALUES_JSON_PATCH_PATH:-} json operation path
  if [[ ${1:-} == --config ]]; then
    file=${CONFIG_VALUES_JSON_PATCH_PATH:-}
    shift
  fi
  _json::string "$1"
  operation=$json
  _json::string "$2"
  path=$json
  if [[ $1 == remove ]]; then
    printf '{"op":%s,"path":%s}\n' "$operation" "$path" >>"$file"
  else
    _json::value "${3-}"
    printf '{"op":%s,"path":%s,"value":%s}\n' "$operation" "$path" "$json" >>"$file"
  fi
}

# values::_config ARGUMENT… sets config where the first is --config, and fails where it is to be shifted away.
values::_config() {
  [[ ${1:-} == --config ]] || return 0
  config=--config
  return 1
}
