#!/usr/bin/env bash
# Removes the slug from the ConfigMap, whether slug.sh or a person has written it.
# This hook runs after the release is deleted.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "afterDeleteHelm": 10}'
  exit 0
fi

jq '.statusPage // {} | select(has("slug")) | {op: "remove", path: "/statusPage/slug"}' \
  "$CONFIG_VALUES_PATH" >"$CONFIG_VALUES_JSON_PATCH_PATH"
