#!/usr/bin/env bash
# Earlier versions called the setting "replicas" "instances". This moves what
# the ConfigMap says to the new name, before the chart is rendered.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "beforeHelm": 10}'
  exit 0
fi

jq '.web // {} | select(has("instances")) | [
      {op: "add", path: "/web/replicas", value: .instances},
      {op: "remove", path: "/web/instances"}
    ]' "$CONFIG_VALUES_PATH" >"$CONFIG_VALUES_JSON_PATCH_PATH"
