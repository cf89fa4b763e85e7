# shellcheck shell=bash
#
# The shell framework of hooks. A hook sources it, declares functions named after its bindings, and ends with
#
#   hook::run "$@"
#
# The framework needs bash 4.4 or newer and jq 1.5 or newer. It loads every *.sh file of the directory frameworks/shell
# beside this file, so an image can add files there.

# A failed command ends the hook, also in functions, subshells and command substitutions. An unset variable and a file
# name pattern without a match end it, too. The reason is written to standard error.
set -Eeuo pipefail
shopt -s inherit_errexit failglob

for _framework_file in "${BASH_SOURCE[0]%/*}"/frameworks/shell/*.sh; do
  # shellcheck source=/dev/null
  builtin source "$_framework_file"
done
unset _framework_file

trap hook::_trace ERR
