#!/usr/bin/env bash
# Gives the installation an id, once, and keeps it in the ConfigMap.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "onStartup": 10}'
  exit 0
fi

id=$(jq -r '.global.installationId // ""' "$CONFIG_VALUES_PATH")
if [[ -z $id ]]; then
  read -r id </proc/sys/kernel/random/uuid
  jq -n --arg id "$id" '{op: "add", path: "/global/installationId", value: $id}' >"$CONFIG_VALUES_JSON_PATCH_PATH"
fi
