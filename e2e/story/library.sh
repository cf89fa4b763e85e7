# Functions for the hooks of stories. A hook sources this file: source "$LIBRARY"
#
# The hook sources it without arguments, so $1 is the first argument of the hook.

asked=${1:-}

# config copies the hook's configuration from standard input to standard output
# and ends the hook, if the operator has called the hook for its configuration.
config() {
  if [[ $asked == --config ]]; then
    cat
    exit 0
  fi
}

# record stores the input of the hook in $run, a new directory in $RUNS. Its name
# consists of the module or "global", the file, and the number of the run, such as
# "web%start.sh 0001".
record() {
  local module=${0%/hooks/*} name=${0##*/hooks/} n=1
  case $0 in
    */global-hooks/*) module=global name=${0##*/global-hooks/} ;;
    *) module=${module##*/} module=${module#[0-9][0-9][0-9]-} ;;
  esac
  [[ $0 == */enabled ]] && module=${0%/*} module=${module##*/} module=${module#[0-9][0-9][0-9]-} name=enabled
  while :; do
    printf -v run '%s/%s %04d' "$RUNS" "${module}%${name//\//%}" $n
    mkdir "$run" 2> /dev/null && break
    n=$((n + 1))
  done
  date +%s.%N > "$run/began"
  [[ -z ${BINDING_CONTEXT_PATH:-} ]] || cp "$BINDING_CONTEXT_PATH" "$run/context.json"
  cp "$VALUES_PATH" "$run/values.json"
  cp "$CONFIG_VALUES_PATH" "$run/config.json"
  echo "$ADDON_OPERATOR_ATTEMPT $ADDON_OPERATOR_PREVIOUS" > "$run/attempt"
  # A run exists for the story when its line is in this file. So this line is written last, and with a single write.
  echo "${run##*/}" >> "$RUNS/order"
}

# values_patch adds a JSON patch of values, and config_patch adds a JSON patch of the ConfigMap.
values_patch() { echo "$1" >> "$VALUES_JSON_PATCH_PATH"; }
config_patch() { echo "$1" >> "$CONFIG_VALUES_JSON_PATCH_PATH"; }

# times prints how often the hook was started, this time included.
times() { echo $((10#${run##* })); }
