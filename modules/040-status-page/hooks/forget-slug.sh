#!/usr/bin/env bash
# Takes back what slug.sh put into the ConfigMap, once the release is gone.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "afterDeleteHelm": 10}'
  exit 0
fi

jq '.statusPage // {} | select(has("slug")) | {op: "remove", path: "/statusPage/slug"}' \
  "$CONFIG_VALUES_PATH" >"$CONFIG_VALUES_JSON_PATCH_PATH"
