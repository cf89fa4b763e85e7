# shellcheck shell=bash
#
# Encodes values as JSON. jq is started only for texts that bash cannot encode or classify.

# _json::string TEXT sets json to TEXT as a JSON string.
_json::string() {
  local backslash='\' text=$1
  text=${text//"$backslash"/"$backslash$backslash"}
  text=${text//'"'/"$backslash"'"'}
  if [[ $text == *[[:cntrl:]]* ]]; then
    text=${text//$'\n'/"${backslash}n"}
    text=${text//$'\t'/"${backslash}t"}
    text=${text//$'\r'/"${backslash}r"}
  fi
  if [[ $text == *[[:cntrl:]]* ]]; then
    json=$(jq -n --arg text "$1" '$text')
  else
    json="\"$text\""
  fi
}

# _json::value TEXT sets json to TEXT if TEXT is valid JSON, to null if TEXT is empty, and otherwise to TEXT as a JSON
# string.
_json::value() {
  local number='^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$'
  local perhaps='^[[:space:]]|^[["{]|[[:space:]]$'
  if [[ -z $1 ]]; then
    json=null
  elif [[ $1 =~ $number || $1 == true || $1 == false || $1 == null ]]; then
    json=$1
  elif [[ $1 =~ $perhaps ]]; then
    json=$(printf %s "$1" | jq -Rsc '. as $text | try fromjson catch $text')
  else
    _json::string "$1"
  fi
}
