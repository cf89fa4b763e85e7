#!/usr/bin/env bash
# Reports certificates that expire soon. The owner of a certificate creates a
# ConfigMap with the label addons.example.com/certificate and the date of expiry in
# data.notAfter. The events of these ConfigMaps and the schedule ticks are one group:
# all events and ticks that wait at the same time lead to one run, with the snapshot
# of all certificates.
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

# The operator logs each printed JSON object, with its level and fields.
jq -c '.[] | {level: "warn", msg: "certificate expires", certificate: "\(.namespace)/\(.name)", daysLeft}' <<<"$expiring"

# If the value is the same as before, the module does not run again. Most ticks do not
# change the value.
jq -n --argjson expiring "$expiring" \
  '{op: "add", path: "/certificates/internal/expiring", value: $expiring}' >"$VALUES_JSON_PATCH_PATH"

# Sets one gauge for each expiring certificate. The operation "expire" first removes all
# gauges of the group, including those of renewed certificates.
jq -c '{action: "expire", group: "expiring"},
  (.[] | {name: "certificate_days_left", set: .daysLeft, group: "expiring", labels: {certificate: "\(.namespace)/\(.name)"}})' \
  <<<"$expiring" >"$METRICS_PATH"

# Annotates the ConfigMap of each expiring certificate, for its owner. The result of the
# jqFilter has no annotations, so these writes cause no events for this hook.
jq -c '.[] | {operation: "MergePatch", kind: "ConfigMap", namespace, name, ignoreMissingObject: true,
    mergePatch: {metadata: {annotations: {"addons.example.com/expires-soon": "yes"}}}}' \
  <<<"$expiring" >"$KUBERNETES_PATCH_PATH"
