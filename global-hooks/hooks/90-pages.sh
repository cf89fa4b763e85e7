#!/usr/bin/env bash
# Lists the Services that are pages, by their label, in global values. A module
# that has just added one is seen after all modules ran: then the list changes,
# and the modules are reloaded, once.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  cat <<'END'
configVersion: v1
afterAll: 10
kubernetes:
- name: pages
  apiVersion: v1
  kind: Service
  labelSelector:
    matchExpressions:
    - {key: addons.example.com/page, operator: Exists}
  jqFilter: '{name: .metadata.labels["addons.example.com/page"], namespace: .metadata.namespace}'
  executeHookOnEvent: [Added, Deleted]
  executeHookOnSynchronization: false
  keepFullObjectsInMemory: false
  includeSnapshotsFrom: [pages]
END
  exit 0
fi

jq '{op: "add", path: "/global/pages", value: [.[-1].snapshots.pages[].filterResult]}' \
  "$BINDING_CONTEXT_PATH" >"$VALUES_JSON_PATCH_PATH"
