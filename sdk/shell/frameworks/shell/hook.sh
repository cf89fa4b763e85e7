# shellcheck shell=bash
#
# Runs the functions of a hook.

# hook::run "$@" is the last line of a hook. With the argument --config, it calls __config__ and ends the hook. Otherwise
# it calls one function for each element of the binding context: the first declared one of the possible names for the
# element. Each function runs in a subshell, so the next function does not see its variables.
hook::run() {
  if [[ ${1:-} == --config ]]; then
    __config__
    exit 0
  fi
  if [[ ! -r ${BINDING_CONTEXT_PATH:-} ]]; then
    hook::_fail "hook::run: BINDING_CONTEXT_PATH must name a readable file; the operator sets it"
    return 1
  fi

  # One jq reads the properties of all elements, quoted for the shell, because starting jq is the slowest part.
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
    # This call must not be part of a condition or of an && or || list. There, bash ignores set -e in the called function.
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
  hook::_fail "hook::run: declare one of the functions ${list:2} for binding ${1@Q}"
  return 1
}

# hook::_names BINDING TYPE EVENT GROUP FROM TO sets names to the possible function names for an element, the most
# specific name first.
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
  # A function name cannot contain blanks, quotes and similar characters. If the name of a binding contains them, the
  # function has underscores in their places.
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

# Elements of ordered bindings have no type. In the legacy format no element has a type: an event has the field
# resourceEvent, and a tick of a schedule has only the name of its binding.
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

# hook::_trace is the ERR trap. It prints the exit status of the failed command and the stack of calls, with their lines.
hook::_trace() {
  local status=$?
  [[ ${FUNCNAME[1]:-} != hook::_call ]] || return "$status" # the subshell has printed the error, or the function called exit
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
