#!/usr/bin/env bash
# Writes to global.officeOpen whether the office is open. Charts read this value. When
# the office opens or closes, the value changes, and all modules are reloaded. The
# ticks in between do not change the value.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  cat <<'END'
configVersion: v1
onStartup: 20
schedule:
- name: every-minute
  crontab: "* * * * *"
END
  exit 0
fi

zone=$(jq -r '.global.officeHours.zone' "$VALUES_PATH")
hour=$((10#$(TZ=$zone date +%H)))
jq --argjson hour "$hour" \
  '.global.officeHours | {op: "add", path: "/global/officeOpen", value: (.from <= $hour and $hour < .to)}' \
  "$VALUES_PATH" >"$VALUES_JSON_PATCH_PATH"
