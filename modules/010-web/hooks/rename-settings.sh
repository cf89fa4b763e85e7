#!/usr/bin/env bash
# The setting "replicas" has the old name "instances". If the ConfigMap has the old
# name, this hook renames the key before the chart is rendered.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "beforeHelm": 10}'
  exit 0
fi

jq '.web // {} | select(has("instances")) | [
      {op: "add", path: "/web/replicas", value: .instances},
      {op: "remove", path: "/web/instances"}
    ]' "$CONFIG_VALUES_PATH" >"$CONFIG_VALUES_JSON_PATCH_PATH"
