#!/usr/bin/env bash
# Writes the list of the Services with the label addons.example.com/page to the global
# values. If a module adds such a Service, this hook sees it after all modules have
# run. Then the list changes, and the modules are reloaded once.
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
