# shellcheck shell=bash
#
# Runs the functions of a hook.

# hook::run "$@" is the last line of a hook. Asked for --config it calls __config__ and ends the hook. Otherwise it calls,
# for each element of the binding context, the first function declared of those that fit the element, in a subshell:
# variables that one sets are not seen by the next.
hook::run() {
  if [[ ${1:-} == --config ]]; then
    __config__
    exit 0
  fi
  if [[ ! -r ${BINDING_CONTEXT_PATH:-} ]]; then
    hook::_fail "hook::run: BINDING_CONTEXT_PATH names no file that can be read; the operator sets it"
    return 1
  fi

  # All facts of all elements by one jq, quoted for the shell. A start of jq can take longer than all else here.
  local filter='.[] | [.binding // "unknown", .type, .watchEvent // .resourceEvent, .groupName, .fromVersion, .toVersion]
    | map(. // "" | tostring) | @sh'
  local quoted
  quoted=$(jq -r "$filter" "$BINDING_CONTEXT_PATH")
  local -a facts
  eval "facts=($quoted)"

  local i status
  for ((i = 0; i < ${#facts[@]}; i += 6)); do
    export BINDING_CONTEXT_CURRENT_INDEX=$((i / 6))
    export BINDING_CONTEXT_CURRENT_BINDING=${facts[i]}
    export BINDING_CONTEXT_CURRENT_TYPE=${facts[i + 1]}
    # Nothing may stand before or behind this call: as a condition it would go on after commands that fail.
    hook::_call "${facts[@]:i:6}"
    status=$?
    ((status == 0)) || return "$status"
  done
}

# hook::_call BINDING TYPE EVENT GROUP FROM TO calls the function for an element.
hook::_call() {
  local -a names=()
  hook::_names "$@"
  names+=(__main__)
  local name
  for name in "${names[@]}"; do
    if declare -F -- "$name" >/dev/null; then
      ("$name")
      return
    fi
  done
  local list='' blank='[[:space:]]'
  for name in "${names[@]}"; do
    [[ $name =~ $blank ]] || list+=", $name"
  done
  hook::_fail "hook::run: declare one of the functions ${list:2} to take what binding ${1@Q} brings"
  return 1
}

# hook::_names BINDING TYPE EVENT GROUP FROM TO sets names to the functions that may take an element, the most particular
# one first.
hook::_names() {
  local binding=$1 group=$4 from=${5/\//.} to=${6/\//.}
  case $2 in
    Synchronization) names=("__on_kubernetes::$binding::synchronization" "__on_kubernetes::$binding") ;;
    Event) hook::_event_names "$binding" "$3" ;;
    Group) names=("__on_group::$group" "__on_group::$binding") ;;
    Schedule) names=("__on_schedule::$binding") ;;
    Validating) names=("__on_validating::$binding" "__on_mutating::$binding") ;;
    Mutating) names=("__on_mutating::$binding" "__on_validating::$binding") ;;
    Conversion) names=("__on_conversion::$binding::$from::$to" "__on_conversion::$binding") ;;
    *) hook::_untyped_names "$binding" "$3" ;;
  esac
  # The name of a function holds no blanks, quotes and the like. Where a binding's does, underscores stand for them.
  local -a plain=("${names[@]//[^[:alnum:]_.:\/@%+~-]/_}")
  [[ "${plain[*]}" == "${names[*]}" ]] || names+=("${plain[@]}")
}

hook::_event_names() {
  local of="__on_kubernetes::$1"
  case $2 in
    Added | add) names=("$of::added" "$of::added_or_modified" "$of") ;;
    Modified | update) names=("$of::modified" "$of::added_or_modified" "$of") ;;
    Deleted | delete) names=("$of::deleted" "$of") ;;
  esac
}

# Ordered bindings have no type. The legacy format has none at all: its events have a resourceEvent, its ticks nothing.
hook::_untyped_names() {
  case $1 in
    onStartup) names=(__on_startup) ;;
    beforeAll) names=(__on_before_all) ;;
    afterAll) names=(__on_after_all) ;;
    beforeHelm) names=(__on_before_helm) ;;
    afterHelm) names=(__on_after_helm) ;;
    beforeDeleteHelm) names=(__on_before_delete_helm) ;;
    afterDeleteHelm) names=(__on_after_delete_helm) ;;
    *)
      names=("__on_schedule::$1")
      [[ -z $2 ]] || hook::_event_names "$1" "$2"
      ;;
  esac
}

hook::_fail() { printf >&2 'ERROR: %s\n' "$*"; }

# hook::_trace tells which command failed, by the lines that led to it. It is the ERR trap.
hook::_trace() {
  local status=$?
  [[ ${FUNCNAME[1]:-} != hook::_call ]] || return "$status" # the subshell has told it, or it was told to exit
  printf >&2 'ERROR: exit status %d\n' "$status"
  local frame line indent
  local -a text
  for ((frame = 1; frame < ${#BASH_SOURCE[@]}; frame++)); do
    [[ ${FUNCNAME[frame]} != hook::_call && ${FUNCNAME[frame]} != hook::run ]] || continue
    line=${BASH_LINENO[frame - 1]} text=()
    if ((line > 0)) && [[ -r ${BASH_SOURCE[frame]} ]]; then
      mapfile -t -s $((line - 1)) -n 1 text <"${BASH_SOURCE[frame]}"
    fi
    indent=${text[0]-}
    indent=${indent%%[![:blank:]]*}
    printf >&2 '  %s:%d: in %s: %s\n' "${BASH_SOURCE[frame]}" "$line" "${FUNCNAME[frame]}" "${text[*]#"$indent"}"
  done
  return "$status"
}
