# shellcheck shell=bash
#
# Reads the binding context.

# context::global::jq ARGUMENT… runs jq on the whole binding context, which is an array.
context::global::jq() { jq "$@" "$BINDING_CONTEXT_PATH"; }

# context::jq ARGUMENT… runs jq on the element that the running function was called for.
context::jq() {
  local element=".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]"
  # If the only arguments are a filter and options that the loop below accepts, one jq first selects the element and
  # then runs the filter. This is not possible if the filter uses input or inputs, or a directive that must be at its
  # start, such as import.
  local -a options=()
  local flags='^-[acCejMr]+$'
  while (($# > 0)); do
    if [[ $1 =~ $flags ]]; then
      options+=("$1")
      shift
    elif [[ ($1 == --arg || $1 == --argjson) && $# -ge 3 ]]; then
      options+=("$1" "$2" "$3")
      shift 3
    else
      break
    fi
  done
  local reads='(^|[^.$[:alnum:]_])(inputs?|import|include|input_line_number|modulemeta|label)([^[:alnum:]_]|$)'
  if (($# == 1)) && [[ $1 != -* && ! $1 =~ $reads ]]; then
    jq "${options[@]}" "$element | ("$'\n'"$1"$'\n'")" "$BINDING_CONTEXT_PATH"
  else
    # Without a pipe, because the second jq can end before it has read all input. In a pipe, the first jq would then fail.
    local current
    current=$(context::global::jq "$element") || return
    jq "${options[@]}" "$@" <<<"$current"
  fi
}

# context::get [--required] PATH prints the value at PATH of the element: a string without quotes, any other value as
# JSON, and null if there is no value. With --required, it fails if there is no value.
context::get() {
  local required=
  while [[ ${1:-} == --required ]]; do
    required=yes
    shift
  done
  if [[ -n $required ]] && ! context::has "${1:-}"; then
    hook::_fail "context::get: the binding context has no value at the required path ${1@Q}"
    return 1
  fi
  _path::read context::jq -r "${1:-}" ''
}

# context::has PATH succeeds if the element has a value at PATH, including null.
context::has() { _path::has context::jq "${1:-}"; }

# context::is_true, context::is_false and context::is_null PATH succeed if the value at PATH is true, false or null. A
# missing value is treated as null.
context::is_true() { _path::read context::jq -e "${1:-}" '== true' >/dev/null; }
context::is_false() { _path::read context::jq -e "${1:-}" '== false' >/dev/null; }
context::is_null() { _path::read context::jq -e "${1:-}" '== null' >/dev/null; }
