# shellcheck shell=bash
#
# Lets hooks source /shell_lib.sh if that file does not exist, for example outside of the image. The operator names this
# file in BASH_ENV, so bash reads it before each script of a hook, and in each bash that a hook starts. It affects only
# scripts that mention the framework. It must work under set -eu, because a script can start with bash -eu.

if [[ ! -e /shell_lib.sh ]]; then
  _framework_text=${BASH_EXECUTION_STRING:-}
  if [[ -z $_framework_text && -f $0 && -r $0 ]]; then
    IFS= read -r -N 65536 _framework_text <"$0" || :
  fi 2>/dev/null
  if [[ $_framework_text == *shell_lib.sh* || $_framework_text == *hook::run* ]]; then
    _framework_dir=${BASH_SOURCE[0]%/*}
    _framework_args=("$@")

    # Until the framework is loaded, these functions replace the builtins source and dot. Variables and functions of a
    # sourced file are still global, with one exception: "declare" without -g makes a variable local to the function.
    source() {
      if [[ ${1:-} == /shell_lib.sh ]]; then
        unset -f source .
        builtin source "$_framework_dir/shell_lib.sh"
        unset _framework_dir _framework_args
        return
      fi
      (($# != 1)) || set -- "$1" "${_framework_args[@]}"
      builtin source "$@"
    }
    .() { source "$@"; }
  fi
  unset _framework_text
fi

# If the user has set BASH_ENV, the operator passes the user's value in this variable instead.
if [[ -n ${ADDON_OPERATOR_BASH_ENV:-} ]]; then
  # shellcheck source=/dev/null
  builtin source "$ADDON_OPERATOR_BASH_ENV"
fi
