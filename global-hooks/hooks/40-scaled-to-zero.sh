#!/usr/bin/env bash
# Warns when somebody scales a Deployment to zero. Because of the filter, only changes
# of the number of replicas are events. The events have a separate queue, so that they
# do not delay the main queue.
set -euo pipefail

if [[ ${1:-} == --config ]]; then
  cat <<'END'
configVersion: v1
kubernetes:
- name: deployments
  apiVersion: apps/v1
  kind: Deployment
  jqFilter: .spec.replicas
  executeHookOnEvent: [Modified]
  executeHookOnSynchronization: false
  allowFailure: true
  queue: audit
END
  exit 0
fi

jq -c '.[] | select(.filterResult == 0)
  | {level: "warn", msg: "scaled to zero", deployment: "\(.object.metadata.namespace)/\(.object.metadata.name)"}' \
  "$BINDING_CONTEXT_PATH"
