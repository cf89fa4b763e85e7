#!/usr/bin/env bash
# Sets a value to true after the release is installed. The first time, this changes
# the values of the module, so the module runs again, and the chart renders the final
# page.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "afterHelm": 10}'
  exit 0
fi

echo '{"op": "add", "path": "/web/internal/installed", "value": true}' >"$VALUES_JSON_PATCH_PATH"
