# shellcheck shell=bash
#
# Requests changes of objects. The operator makes the changes after the hook has succeeded. RESOURCE is KIND/NAME, such as
# pod/web-0, or APIVERSION/KIND/NAME if the kind is ambiguous, such as apps/v1/Deployment/web. NAMESPACE is empty for a
# cluster-scoped object. The functions for creation read one or more objects from standard input.

# Create each object. An object that exists already is an error.
kubernetes::create_json() { kubernetes::_json Create; }
kubernetes::create_yaml() { kubernetes::_yaml Create; }

# Create each object that does not exist. Existing objects are not changed.
kubernetes::create_if_not_exists_json() { kubernetes::_json CreateIfNotExists; }
kubernetes::create_if_not_exists_yaml() { kubernetes::_yaml CreateIfNotExists; }

# Create each object, or merge the given object into the existing one.
kubernetes::replace_or_create_json() { kubernetes::_json CreateOrUpdate; }
kubernetes::replace_or_create_yaml() { kubernetes::_yaml CreateOrUpdate; }
kubernetes::replace_json() { kubernetes::_json CreateOrUpdate; }
kubernetes::replace_yaml() { kubernetes::_yaml CreateOrUpdate; }

# NAMESPACE RESOURCE: deletes the object after its dependents, and waits up to 20 s until the object is gone. A missing
# object is no error.
kubernetes::delete() { kubernetes::_delete Delete "$@"; }
kubernetes::delete_if_exists() { kubernetes::_delete Delete "$@"; }
# NAMESPACE RESOURCE: deletes the object without waiting. Its dependents are deleted afterwards.
kubernetes::delete_if_exists::non_blocking() { kubernetes::_delete DeleteInBackground "$@"; }
# NAMESPACE RESOURCE: deletes the object and keeps its dependents.
kubernetes::delete_if_exists::non_cascading() { kubernetes::_delete DeleteNonCascading "$@"; }

# [--ignore-missing] [--subresource NAME] NAMESPACE RESOURCE FILTER: replaces the object with the result of the jq FILTER.
kubernetes::patch_jq() { kubernetes::_patch JQPatch jqFilter "$@"; }
# [--ignore-missing] [--subresource NAME] NAMESPACE RESOURCE PATCH: applies a JSON merge patch.
kubernetes::merge_patch() { kubernetes::_patch MergePatch mergePatch "$@"; }
# [--ignore-missing] [--subresource NAME] NAMESPACE RESOURCE PATCH: applies a JSON patch, an array of operations.
kubernetes::json_patch() { kubernetes::_patch JSONPatch jsonPatch "$@"; }

# NAMESPACE APIVERSION KIND NAME PATCH: merges PATCH, a JSON object, into the status.
kubernetes::status::merge_patch() {
  kubernetes::merge_patch --subresource /status "$1" "$2/$3/$4" "{\"status\":$5}"
}
# NAMESPACE APIVERSION KIND NAME PATCH: applies a JSON patch to the status. Its paths begin with /status.
kubernetes::status::json_patch() {
  kubernetes::json_patch --subresource /status "$1" "$2/$3/$4" "$5"
}

kubernetes::_json() {
  jq -c --arg operation "$1" '{operation: $operation, object: .}' >>"$KUBERNETES_PATCH_PATH"
}

# kubernetes::_yaml OPERATION splits standard input into YAML documents. The operator parses them.
kubernetes::_yaml() {
  jq -Rsc --arg operation "$1" '
    reduce (rtrimstr("\n") | split("\n")[]) as $line ([[]]; if $line | test("^---(\\s|$)") then . + [[$line]] else .[-1] += [$line] end)
    | .[] | select(any(.[]; test("^(---)?\\s*(#.*)?$") | not))
    | {operation: $operation, object: (join("\n") + "\n")}' >>"$KUBERNETES_PATCH_PATH"
}

kubernetes::_delete() {
  local operation=$1 json target
  kubernetes::_target "${@:2}" || return
  _json::string "$operation"
  printf '{"operation":%s,%s}\n' "$json" "$target" >>"$KUBERNETES_PATCH_PATH"
}

# kubernetes::_patch OPERATION KEY [OPTION]… NAMESPACE RESOURCE PATCH adds a patch operation, with PATCH in its field KEY.
kubernetes::_patch() {
  local operation=$1 key=$2 options='' json target
  shift 2
  while [[ ${1:-} == --* ]]; do
    case $1 in
      --ignore-missing)
        options+=',"ignoreMissingObject":true'
        shift
        ;;
      --subresource)
        _json::string "${2:?--subresource needs a name}"
        options+=",\"subresource\":$json"
        shift 2
        ;;
      *)
        hook::_fail "kubernetes: $1 is not an option; the options are --ignore-missing and --subresource NAME"
        return 1
        ;;
    esac
  done
  kubernetes::_target "$@" || return
  if [[ $key == jqFilter ]]; then
    _json::string "$3"
  else
    json=$(jq -cs 'if length == 1 then .[0] else error("a patch must be one JSON document") end' <<<"$3") || return
  fi
  printf '{"operation":"%s",%s,"%s":%s%s}\n' "$operation" "$target" "$key" "$json" "$options" >>"$KUBERNETES_PATCH_PATH"
}

# kubernetes::_target NAMESPACE RESOURCE … sets target to the JSON fields that identify the object.
kubernetes::_target() {
  local parts='^(([^/]+|[^/]+/[^/]+)/)?([^/]+)/([^/]+)$'
  if [[ $# -lt 2 || ! $2 =~ $parts ]]; then
    hook::_fail "kubernetes: ${2@Q} is not an object: write KIND/NAME or APIVERSION/KIND/NAME"
    return 1
  fi
  local version=${BASH_REMATCH[2]} kind=${BASH_REMATCH[3]} name=${BASH_REMATCH[4]} json
  target=
  _json::string "$version"
  [[ -z $version ]] || target+="\"apiVersion\":$json,"
  _json::string "$1"
  [[ -z $1 ]] || target+="\"namespace\":$json,"
  _json::string "$kind"
  target+="\"kind\":$json"
  _json::string "$name"
  target+=",\"name\":$json"
}
