#!/usr/bin/env bash
# Tells charts whether the office is open: global.officeOpen. When it opens or
# closes, all modules are reloaded; a tick in between changes nothing.
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
