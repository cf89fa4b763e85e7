# shellcheck shell=bash
#
# Reads the binding context.

# context::global::jq ARGUMENT… runs jq on the whole binding context, an array.
context::global::jq() { jq "$@" "$BINDING_CONTEXT_PATH"; }

# context::jq ARGUMENT… runs jq on the element that the running function was called for.
context::jq() {
  local element=".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]"
  # The filter is looked for, to put the way to the element before it; that saves one of two jqs. It must not read its
  # input by itself, nor begin with what only stands at the beginning.
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
    # Not a pipe: the second jq may end before it has read all input, and then the first jq would fail.
    local current
    current=$(context::global::jq "$element") || return
    jq "${options[@]}" "$@" <<<"$current"
  fi
}

# context::get [--required] PATH prints what is at PATH of the element: text as it is, all else as JSON, null where there
# is nothing. With --required it fails where there is nothing.
context::get() {
  local required=
  while [[ ${1:-} == --required ]]; do
    required=yes
    shift
  done
  if [[ -n $required ]] && ! context::has "${1:-}"; then
    hook::_fail "context::get: the binding context has no ${1@Q}, and it is required"
    return 1
  fi
  _path::read context::jq -r "${1:-}" ''
}

# context::has PATH succeeds where the element has something at PATH, if only null.
context::has() { _path::has context::jq "${1:-}"; }

# context::is_true PATH, context::is_false PATH and context::is_null PATH succeed where exactly that is at PATH.
context::is_true() { _path::read context::jq -e "${1:-}" '== true' >/dev/null; }
context::is_false() { _path::read context::jq -e "${1:-}" '== false' >/dev/null; }
context::is_null() { _path::read context::jq -e "${1:-}" '== null' >/dev/null; }
