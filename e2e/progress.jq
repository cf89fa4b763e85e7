# Turns the operator's log, a stream of JSON objects, into lines for people: what was done, to what, how long it
# took, and how far the converge is.

def pad($n): .[:$n] + " " * ($n - length);

# The marks of workflow inspect.
def signs: {done: "✔", failed: "✖", allowed: "!", skipped: "○", dropped: "○", superseded: "»", joined: "→"};

# How far the converge is: at the n-th of m modules.
def far: if .n > 0 then "\(.n)/\(.m)" else "" end;

def line($state): "\(.time[11:19]) \($state | far | pad(5)) \(signs[.msg] // "·") \(.node | pad(33)) " +
  "\(.subject // "" | pad(36)) \(.error // .detail // "" | split("\n")[0] // "")" +
  (if .again then " (interrupted by the stop, done again)" else "" end) +
  (if .took then "  " + .took else "" end);

foreach inputs as $r ({m: 0, n: 0};
  if $r.node == "discover-modules" and $r.msg == "done" then
    {m: ($r.detail | capture("^(?<m>[0-9]+)").m | tonumber), n: 0}
  elif $r.node == "module-run" and $r.msg == "done" and $r.subject != .now and .m > 0 then
    .now = $r.subject | .n = ([.n + 1, .m] | min)
  elif ($r.node // "") | test("^global-(afterall|beforeall)$") then
    {m: 0, n: 0}
  else . end; # jq 1.6 requires the else
  . as $state | $r |
  if .output then "\(.time[11:19])         \(.hook | split("/")[-1] | pad(33)) \(.msg)" +
    (to_entries | map(select(.key | startswith("hook_")) | " \(.key[5:])=\(.value)") | add // "")
  elif .node then line($state)
  elif .level != "debug" then "\(.time[11:19])       \(.msg)" +
    (if .error then ": " + .error else "" end)
  else empty end)
