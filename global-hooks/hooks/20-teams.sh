#!/usr/bin/env bash
# A namespace with the label "team" belongs to a team. This hook writes the list of
# these namespaces to the global values, and enables module team-quotas while the
# list is not empty. Its events have a separate queue. In the main queue, the event of
# a deleted namespace would wait behind a module that fails because of the deletion.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  cat <<'END'
configVersion: v1
beforeAll: 10
kubernetes:
- name: teams
  apiVersion: v1
  kind: Namespace
  labelSelector:
    matchExpressions:
    - {key: team, operator: Exists}
  jqFilter: |
    select(.metadata.deletionTimestamp == null)
    | {namespace: .metadata.name, team: .metadata.labels.team}
  keepFullObjectsInMemory: false
  includeSnapshotsFrom: [teams]
  queue: teams
END
  exit 0
fi

# The snapshot has the current namespaces, for every kind of event.
jq '[.[-1].snapshots.teams[].filterResult | values] as $teams | [
      {op: "add", path: "/global/teams", value: $teams},
      {op: "add", path: "/teamQuotasEnabled", value: ($teams | length > 0)}
    ]' "$BINDING_CONTEXT_PATH" >"$VALUES_JSON_PATCH_PATH"
