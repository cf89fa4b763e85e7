#!/usr/bin/env bash
# Runs the operator with the sample modules: on a local control plane, or with
# CLUSTER=current on the cluster of the current kubeconfig. Needs Go, git, make
# and bash, and prefers an installed kubectl to the one that it builds. All data
# are in .run/, so the next run continues where this one stopped. "make run"
# starts this script.
set -euo pipefail
cd "$(dirname "$0")/.."

cluster=${CLUSTER:-local}
namespace=${NAMESPACE:-addon-operator}
port=${PORT:-9650}
run=.run
log=$run/operator.log
export PATH=$PATH:$PWD/bin KUBECACHEDIR=$PWD/$run/kubectl
operator='' controlplane='' follower='' ticker='' running='' repository='' addons='' worker=''

# say LINE...: prints lines. It ignores a closed pipe, because a tee that reads the output ends at Ctrl-C, too.
say() { printf '%s\n' "$@" 2>/dev/null || true; }
die() { printf 'make run: %s\n' "$*" >&2; exit 1; }
alive() { [[ -n $1 ]] && kill -0 "$1" 2>/dev/null; }

# apart COMMAND...: starts a command in a process group of its own, which the signal
# that ends this script does not reach. The process ID of the command is in $!.
apart() {
  set -m
  "$@" {never}<&- &
  set +m
}

# nap SECONDS: sleeps with a builtin. If a signal ended a program such as sleep, bash would report that.
exec {never}<> <(:) # reading from this descriptor blocks, because nothing writes to it
nap() { read -rt "$1" -u "$never" || true; }

# await PID SECONDS: waits at most SECONDS for the end of a program. It fails if the program still runs.
await() {
  local i
  for ((i = 0; i < $2 * 10; i++)); do
    alive "$1" || return 0
    sleep 0.1
  done
  ! alive "$1"
}

# end PID SECONDS: asks a program to end, and kills it if it still runs after SECONDS.
end() {
  alive "$1" || return 0
  kill -TERM "$1" 2>/dev/null || return 0
  await "$1" "$2" || kill -KILL -- "-$1" 2>/dev/null || true
}

# The operator is stopped first, because it needs the cluster to finish its running work.
# No command here may end the script early, as a write to a closed pipe would.
finish() {
  local status=$?
  trap '' INT TERM HUP PIPE
  set +e
  [[ -z $ticker ]] || kill "$ticker" 2>/dev/null
  if alive "$operator"; then
    say '' 'Stopping: running hooks can end, and no other work begins …'
    end "$operator" 30
  fi
  await "$follower" 5 # it prints the last lines
  ! alive "$follower" || kill -- "-$follower" 2>/dev/null
  [[ -z $addons ]] || kill "$addons" 2>/dev/null
  end "$repository" 5
  end "$controlplane" 15
  [[ -z $operator ]] || say "Stopped. The store and the cluster's data are in $run/; 'make run' continues from there."
  exit "$status"
}

# during TEXT COMMAND...: prints TEXT, runs a command, and prints every ten seconds how long the command has run.
during() {
  local text=$1
  shift
  say "$text"
  (for ((i = 10; ; i += 10)); do sleep 10 >/dev/null 2>&1 && say "  … $i s"; done) &
  ticker=$!
  "$@"
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  ticker=''
}

build() {
  if [[ $cluster == local ]]; then
    local first=''
    [[ -x bin/controlplane ]] || first=', which takes some seven minutes the first time'
    during "Building the control plane$first …" make --no-print-directory -s controlplane
  elif ! command -v kubectl >/dev/null; then
    during 'Building kubectl, which takes some minutes …' make --no-print-directory -s bin/kubectl
  fi
  local first=''
  [[ -x bin/addon-operator ]] || first=', which takes a minute or two the first time'
  during "Building the operator$first …" make --no-print-directory -s build
  during 'Building two small helpers …' env CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o bin/ ./e2e/address ./e2e/repository
}

# start_repository packs the sample addons with the author tools and serves $run/repository over HTTP.
start_repository() {
  local sample=$run/repository/sample
  rm -rf "$sample" $run/repository.url
  mkdir -p "$sample"
  bin/addon-operator addons package e2e/sample/addons --destination "$sample" >/dev/null
  bin/addon-operator addons index e2e/sample/addons --destination "$sample" >/dev/null
  cp e2e/sample/broken-index.yaml "$sample"
  apart bin/repository -listen "127.0.0.1:${REPOSITORY_PORT:-9651}" -url-file $run/repository.url $run/repository 2>$run/repository.err
  repository=$!
}

# create ARG...: runs kubectl create. Objects that exist already stay unchanged, and are no error.
create() {
  local errors
  errors=$(kubectl create "$@" 2>&1 >/dev/null) || ! grep -v '(AlreadyExists)' <<<"$errors" >&2
}

# create_addons creates the addons configurations of the sample. It runs in the background, and the start does not wait
# for it. The API server serves a new kind only some time after its definition was created, on a busy machine long after.
create_addons() {
  local began=$SECONDS
  while [[ ! -e $run/repository.url ]]; do
    alive "$repository" || { say "The addons of the sample are not served: $(<$run/repository.err) Set REPOSITORY_PORT."; return; }
    sleep 0.1
  done
  sed "s|REPOSITORY|$(<$run/repository.url)|" e2e/sample/configurations.yaml >$run/configurations.yaml
  while ((SECONDS - began < 90)) && alive "$controlplane"; do
    ! create -f $run/configurations.yaml 2>$run/addons.log || return 0
    sleep 0.5
  done
  say "The addons configurations of the sample were not created: $(<$run/addons.log)"
}

start_cluster() {
  say 'Starting the control plane: etcd, the API server and the controllers …'
  rm -f $run/cluster/ready
  apart bin/controlplane --dir $run/cluster 2>$run/controlplane.err
  controlplane=$!
  while [[ ! -e $run/cluster/ready ]]; do
    alive "$controlplane" || die "the control plane did not start: $(<$run/controlplane.err)"
    nap 0.1
  done
  KUBECONFIG=$PWD/$run/cluster/kubeconfig
  export KUBECONFIG
  store=$run/store.db
  webhooks=${WEBHOOK_URL:-https://127.0.0.1}
}

# The cluster may have other users. The operator would purge releases of the namespace that
# belong to no module, so the namespace must have no releases except those of this script.
use_current_cluster() {
  export KUBECONFIG=${KUBECONFIG:-$HOME/.kube/config}
  local ours foreign uid
  ours=$(kubectl get namespaces -l "kubernetes.io/metadata.name=$namespace,addons.example.com/made-by=make-run" -o name)
  foreign=$(kubectl -n "$namespace" get secrets -l "owner=helm${ours:+,!moduleChecksum}" -o name)
  [[ -z $foreign ]] || die "namespace $namespace of the current cluster has Helm releases that this script has not created:
$foreign
The operator would delete them. Choose another namespace: make run CLUSTER=current NAMESPACE=…"
  uid=$(kubectl get namespace kube-system -o 'jsonpath={.metadata.uid}')
  store=$run/store-${uid%%-*}.db
  # The address from which this machine connects to the API server. There is no Service that leads to this machine.
  webhooks=${WEBHOOK_URL:-https://$(bin/address)}
  say "The API server calls the webhooks of hooks at $webhooks. If it cannot reach this address, set WEBHOOK_URL=https://HOST."
}

put_objects() {
  cat >$run/namespace.yaml <<END
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
  labels: {addons.example.com/made-by: make-run}
END
  kubectl apply --server-side -f $run/namespace.yaml >/dev/null
  # The cluster of a user gets no CustomResourceDefinitions from this script, because they would stay there.
  [[ $cluster != local ]] || kubectl apply --server-side -f deploy/crds.yaml >/dev/null
  # Existing objects are not replaced, because people edit them.
  local soon # when the certificate of the sample expires
  TZ=UTC printf -v soon '%(%Y-%m-%d)T' $((EPOCHSECONDS + 5 * 86400))
  sed "s/notAfter: .*/notAfter: \"${soon}T00:00:00Z\"/" e2e/sample/objects.yaml >$run/objects.yaml
  create -n "$namespace" -f e2e/sample/config.yaml
  create -f $run/objects.yaml
}

start_operator() {
  if [[ -e $store ]]; then
    say '' "The store of an earlier run exists ($store): its unfinished work is resumed."
  else
    say '' 'This is the first run: the store is made, and everything is installed.'
  fi
  : >$log
  local listen=127.0.0.1 addons_flag=--addons-develop-mode
  # In the cluster of a user, this operator must not process addons configurations.
  [[ $cluster == local ]] || listen=0.0.0.0 addons_flag=--addons=off
  apart bin/addon-operator start --kube-config "$KUBECONFIG" --namespace "$namespace" \
    --modules-dir "${MODULES_DIR:-modules:e2e/sample/modules}" --global-hooks-dir "${GLOBAL_HOOKS_DIR:-global-hooks}" --store "$store" --tmp-dir $run/tmp \
    --debug-unix-socket $run/debug.socket "$addons_flag" \
    --webhook-url "$webhooks" --validating-webhook-listen-address "$listen" --conversion-webhook-listen-address "$listen" \
    --validating-webhook-listen-port 0 --conversion-webhook-listen-port 0 \
    --prometheus-listen-address 127.0.0.1 --prometheus-listen-port "$port" --log-type json >>$log 2>&1
  operator=$!
  apart follow
  follower=$!
}

# An installed jq is preferred. Hooks prefer it, too, because bin/hooktools is last on their PATH.
follow() {
  local jq=(bin/hooktools/jq)
  if command -v jq >/dev/null; then jq=(jq --unbuffered); fi
  tail -n +1 -f -s 0.1 --pid="$operator" $log | "${jq[@]}" -nr -f e2e/progress.jq # tail ends when the operator has ended
}

# ask PATH: prints the response of the operator's HTTP server. It needs no program such as curl.
ask() {
  { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || return 0
  printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
  cat <&3
  exec 3>&-
}

# ready: succeeds if a converge of this run has ended.
ready() { [[ $(ask /readyz) == *' 200 OK'* ]]; }

# show_running prints the running task of queue main if it has run for a second, each
# task once. The log has a line for a task only when the task has ended.
show_running() {
  local line status='' task
  while read -r line; do
    if [[ $line == "Queue 'main'"* ]]; then
      status=$line
    elif [[ $line == ' '* || $line == [0-9]* ]] && [[ $status == *"'runs for "* && $status != *ms\'* ]]; then
      task=${line%% \[*} task=${task#*. }
      [[ $task == "$running" ]] || TZ=UTC printf '%(%H:%M:%S)T       … %s runs\n' -1 "${task/:main:/ }"
      running=$task
      return
    fi
  done < <(bin/addon-operator queue main --debug-unix-socket $run/debug.socket 2>/dev/null)
}

# show_resumed prints the time at which the newest start run was resumed, if an earlier call of this script began that
# start run.
show_resumed() {
  local run
  run=$(bin/addon-operator workflow list | sed -nE 's/^ *([0-9]+) .* operator start: .*/\1/p' | head -n 1)
  [[ -z $run ]] || bin/addon-operator workflow inspect "$run" | sed -n 's/^resumed  */Resumed at /p'
}

show_next() {
  local addons_shown=''
  [[ $cluster != local ]] || addons_shown="\
  setting '{\"banner\": \"plan: plain\"}'                           another plan of an addon
  bin/addon-operator addons why broken                          why this configuration is Failed
"
  cat <<END

Converged. The operator runs on; Ctrl-C stops it. In another terminal:

  bin/addon-operator workflow inspect           finished, running and waiting steps

Change something, and look again:

  export KUBECONFIG=$KUBECONFIG PATH=\$PATH:\$PWD/bin
  setting() { kubectl -n $namespace patch configmap addon-operator --type merge -p "{\"data\": \$1}"; }

  setting '{"web": "{title: Hi, replicas: 3}"}'                 another title and size
  setting '{"statusPageEnabled": "false"}'                      a module off …
  setting '{"statusPageEnabled": null}'                         … and on again
  kubectl -n $namespace delete service web                 restored at once
  setting '{"web": "replicas: many"}'                           fails, until you set a number
  kubectl delete namespace team-red                             no team, no quotas
${addons_shown}  setting '{"importEnabled": "true"}'                           a 30 s import, now and at each start:
                                                                press Ctrl-C in the middle of it

END
}

[[ $cluster == local || $cluster == current ]] || die "CLUSTER is $cluster; it can be current, or nothing for a local one"
mkdir -p $run
# This process only waits, with a builtin of bash, and a process in another session does the work. When Ctrl-C reaches
# bash while it waits for a program in the foreground, and this program then ends by itself, bash ignores the Ctrl-C.
if [[ -z ${APART:-} ]]; then
  trap '[[ -z $worker ]] || kill -TERM -- "-$worker" 2>/dev/null || kill -TERM "$worker" 2>/dev/null' INT TERM HUP
  APART=1 setsid bash e2e/run.sh &
  worker=$!
  while alive "$worker"; do wait "$worker" || true; done
  wait "$worker"
  exit
fi
trap finish EXIT
trap 'exit 0' TERM HUP PIPE
[[ -n ${BUILT:-} ]] || build # tests set BUILT, because they have built bin/ already
# The cluster of a user gets no addons, because their kinds would have to be defined there.
if [[ $cluster == local ]]; then
  start_repository
  start_cluster
else
  use_current_cluster
fi
put_objects
start_operator
if [[ $cluster == local ]]; then
  create_addons &
  addons=$!
fi

shown=''
while alive "$operator"; do
  if [[ -z $shown ]] && ready; then
    shown=yes
    nap 0.2 # let the last lines of the converge be printed first
    show_resumed
    show_next
  fi
  [[ -n $shown ]] || show_running
  nap 0.3
done
status=0
wait "$operator" || status=$?
operator=''
say '' "The operator has ended with exit code $status. The end of $log:" >&2
tail -n 5 $log >&2
exit "$status"
