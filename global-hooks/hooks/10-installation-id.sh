#!/usr/bin/env bash
# Writes a random ID of the installation to the ConfigMap, unless it has one.
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
