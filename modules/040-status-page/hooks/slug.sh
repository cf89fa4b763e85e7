#!/usr/bin/env bash
# Chooses the last part of the page's path once and keeps it in the ConfigMap,
# where a person can read it, change it, and carry it to another cluster.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "onStartup": 10}'
  exit 0
fi

slug=$(jq -r '.statusPage.slug // ""' "$CONFIG_VALUES_PATH")
if [[ -z $slug ]]; then
  printf '{"op": "add", "path": "/statusPage/slug", "value": "%04x%04x"}\n' "$RANDOM" "$RANDOM" \
    >"$CONFIG_VALUES_JSON_PATCH_PATH"
fi
