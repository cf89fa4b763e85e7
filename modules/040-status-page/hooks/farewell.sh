#!/usr/bin/env bash
# Logs the path of the page before the release of this module is deleted.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "beforeDeleteHelm": 10}'
  exit 0
fi

jq -r '"the page /status-\(.statusPage.slug) goes away; it listed \(.global.pages | length) pages"' "$VALUES_PATH"
