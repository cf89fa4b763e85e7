#!/usr/bin/env bash
# Chooses a random last part of the path of the page, unless the ConfigMap has one,
# and writes it to the ConfigMap. There, people can read it, change it, and copy it
# to another cluster.
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
