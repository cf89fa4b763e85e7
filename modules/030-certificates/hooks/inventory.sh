#!/usr/bin/env bash
# Logs added and deleted certificates. Failures of this hook are allowed, and the
# start does not wait for it. The hook has a separate queue, which delivers the
# changes in their order.
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
