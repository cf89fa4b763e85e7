# shellcheck shell=bash
#
# Reads values and writes patches of values. With --config as its first argument, a function uses the values of the
# ConfigMap, otherwise the merged values. A change has no effect on the values that this run reads, only on later runs.

# values::jq [--config] ARGUMENT… runs jq on the values.
values::jq() {
  local file=${VALUES_PATH:-}
  while [[ $# -gt 0 && (-z $1 || $1 == --config) ]]; do
    [[ -z $1 ]] || file=${CONFIG_VALUES_PATH:-}
    shift
  done
  jq "$@" "$file"
}

# values::get [--config] [--required] PATH prints the value at PATH: a string without quotes, any other value as JSON, and
# null if there is no value. With --required, it fails if there is no value.
values::get() {
  local required='' config=''
  while [[ ${1:-} == --config || ${1:-} == --required ]]; do
    [[ $1 == --config ]] && config=--config || required=yes
    shift
  done
  if [[ -n $required ]] && ! values::has ${config:+"$config"} "${1:-}"; then
    hook::_fail "values::get: the values have no value at the required path ${1@Q}"
    return 1
  fi
  _path::read values::jq "$config" -r "${1:-}" ''
}

# values::set [--config] PATH VALUE sets the value at PATH. The parent of the value must exist; only a missing section is
# created. VALUE is parsed as JSON; if it is not valid JSON, it is a string. An empty VALUE is null.
values::set() {
  local config='' pointer
  values::_config "$@" || shift
  _path::pointer "$1" || return
  values::json_patch ${config:+"$config"} add "$pointer" "${2-}"
}

# values::unset [--config] PATH removes the value at PATH, if there is one.
values::unset() {
  local config='' pointer
  values::_config "$@" || shift
  _path::pointer "$1" || return
  if values::has ${config:+"$config"} "$1"; then
    values::json_patch ${config:+"$config"} remove "$pointer"
  fi
}

# values::has [--config] PATH succeeds if there is a value at PATH, including null.
values::has() {
  local config=''
  values::_config "$@" || shift
  _path::has values::jq "$config" "${1:-}"
}

# values::is_true and values::is_false [--config] PATH succeed if the value at PATH is the boolean true or false.
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

# values::array_has [--config] PATH TEXT succeeds if the value at PATH is an array with the string TEXT as an element.
values::array_has() {
  local config=''
  values::_config "$@" || shift
  _path::read values::jq "$config" -e --arg text "$2" "$1" '| type == "array" and index([$text]) != null' >/dev/null
}

# values::get_first_defined [--config] PATH… prints the value at the first PATH that has one. It fails if no PATH has one.
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

# values::require_in_config PATH fails with an error message if the ConfigMap has no value at PATH.
values::require_in_config() {
  if ! values::has --config "$1"; then
    hook::_fail "values::require_in_config: $1 is required in the operator's ConfigMap"
    return 1
  fi
}

# values::store::replace_row_by_key [--config] PATH KEY ROW puts the object ROW into the array at PATH. ROW replaces the
# first element with the same value of KEY. If there is none, ROW becomes the last element.
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

# values::store::unset_row_by_key [--config] PATH KEY ROW removes an element from the array at PATH: the first one with the
# same value of KEY as the object ROW. If there is none, it does nothing.
values::store::unset_row_by_key() {
  local config='' pointer index
  values::_config "$@" || shift
  _path::pointer "$1" || return
  index=$(values::_row ${config:+"$config"} "$@") || return
  if [[ -n $index ]]; then
    values::json_patch ${config:+"$config"} remove "$pointer/$index"
  fi
}

# values::_row [--config] PATH KEY ROW prints the index of the first element of the array at PATH with the same value of
# KEY as ROW. If there is none, it prints nothing.
values::_row() {
  local config=''
  values::_config "$@" || shift
  _path::read values::jq "$config" -r --arg key "$2" --argjson row "$3" "$1" \
    '| [.[]? | try .[$key] catch null] | index([$row | .[$key]]) // empty'
}

# values::json_patch [--config] OPERATION POINTER [VALUE] adds an operation to the values patch. OPERATION is add, remove or
# test. POINTER is a JSON pointer, such as /web/replicas. VALUE is parsed in the same way as the VALUE of values::set.
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

# values::_config ARGUMENT… sets config to --config if the first argument is --config. It then fails, so that the caller
# removes this argument: values::_config "$@" || shift.
values::_config() {
  [[ ${1:-} == --config ]] || return 0
  config=--config
  return 1
}
