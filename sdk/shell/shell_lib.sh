# shellcheck shell=bash
#
# The shell framework of hooks. A hook sources it, declares functions named after its bindings, and ends with
#
#   hook::run "$@"
#
# It needs bash 4.4 or newer and jq 1.5 or newer. Every *.sh in frameworks/shell beside this file belongs to it, so that
# an image can add its own.

# A command that fails ends the hook, wherever it stands; so do a variable that is not set and a pattern that fits no
# file. The reason is written to standard error.
set -Eeuo pipefail
shopt -s inherit_errexit failglob

for _framework_file in "${BASH_SOURCE[0]%/*}"/frameworks/shell/*.sh; do
  # shellcheck source=/dev/null
  builtin source "$_framework_file"
done
unset _framework_file

trap hook::_trace ERR
