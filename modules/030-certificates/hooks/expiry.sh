#!/usr/bin/env bash
# Reports certificates that expire soon. Their owners keep a ConfigMap for each,
# with the label addons.example.com/certificate and the date in data.notAfter.
# Their changes and the schedule ticks are one group: however many come together,
# there is one run, and it receives the snapshot of all certificates.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  cat <<'END'
configVersion: v1
kubernetes:
- name: certificates
  apiVersion: v1
  kind: ConfigMap
  labelSelector:
    matchExpressions:
    - {key: addons.example.com/certificate, operator: Exists}
  jqFilter: '{name: .metadata.name, namespace: .metadata.namespace, notAfter: .data.notAfter}'
  keepFullObjectsInMemory: false
  queue: certificates
  group: expiry
schedule:
- name: every-minute
  crontab: "* * * * *"
  queue: certificates
  group: expiry
END
  exit 0
fi

warn_days=$(jq '.certificates.warnDays' "$VALUES_PATH")
expiring=$(jq -c --argjson now "$(date +%s)" --argjson warn "$warn_days" '
  [ .[-1].snapshots.certificates[].filterResult
    | . + {daysLeft: (((.notAfter | fromdateiso8601) - $now) / 86400 | floor)}
    | select(.daysLeft <= $warn) ]' "$BINDING_CONTEXT_PATH")

# A line of JSON becomes a line of the operator's log, with its level and fields.
jq -c '.[] | {level: "warn", msg: "certificate expires", certificate: "\(.namespace)/\(.name)", daysLeft}' <<<"$expiring"

# The same value again is no change, so a tick usually leads to nothing.
jq -n --argjson expiring "$expiring" \
  '{op: "add", path: "/certificates/internal/expiring", value: $expiring}' >"$VALUES_JSON_PATCH_PATH"

# A gauge for each. As they are a group, those of certificates that were renewed
# go first.
jq -c '{action: "expire", group: "expiring"},
  (.[] | {name: "certificate_days_left", set: .daysLeft, group: "expiring", labels: {certificate: "\(.namespace)/\(.name)"}})' \
  <<<"$expiring" >"$METRICS_PATH"

# Owners see it at their ConfigMap. Because of the jqFilter above, this hook gets no
# events for its own writes.
jq -c '.[] | {operation: "MergePatch", kind: "ConfigMap", namespace, name, ignoreMissingObject: true,
    mergePatch: {metadata: {annotations: {"addons.example.com/expires-soon": "yes"}}}}' \
  <<<"$expiring" >"$KUBERNETES_PATCH_PATH"
