#!/usr/bin/env bash
# Logs the page that is about to be deleted, before the release is deleted.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "beforeDeleteHelm": 10}'
  exit 0
fi

jq -r '"the page /status-\(.statusPage.slug) goes away; it listed \(.global.pages | length) pages"' "$VALUES_PATH"
