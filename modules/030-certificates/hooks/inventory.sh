#!/usr/bin/env bash
# Logs which certificates come and go. Nobody waits for it and it may fail: it
# has a queue of its own, in which the changes are delivered one after another.
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
  executeHookOnEvent: [Added, Deleted]
  waitForSynchronization: false
  allowFailure: true
  queue: inventory
END
  exit 0
fi

jq -r '.[]
  | if .type == "Synchronization" then "\(.objects | length) certificates are known"
    else "\(.watchEvent) \(.object.metadata.namespace)/\(.object.metadata.name)" end' "$BINDING_CONTEXT_PATH"
