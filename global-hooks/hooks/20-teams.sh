#!/usr/bin/env bash
# A namespace with the label "team" belongs to a team. This keeps the list of
# them in global values, and has module team-quotas on while there is any.
# Its events have a queue of their own: in main they would wait behind a module that
# fails because it does not know yet that a team has gone.
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

# Whatever led here, the snapshot says how things are now.
jq '[.[-1].snapshots.teams[].filterResult | values] as $teams | [
      {op: "add", path: "/global/teams", value: $teams},
      {op: "add", path: "/teamQuotasEnabled", value: ($teams | length > 0)}
    ]' "$BINDING_CONTEXT_PATH" >"$VALUES_JSON_PATCH_PATH"
