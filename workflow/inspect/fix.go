package inspect

import (
	"cmp"
	"strings"
)

// fixes are what to mend for problems that do not say it themselves.
var fixes = map[Kind]string{
	KindFailing:     "correct what the error names; the step is then retried by itself",
	KindRefused:     "correct the ConfigMap; until then the last valid content is in force",
	KindBroken:      "correct the files of the module; the operator then loads it by itself",
	KindNoCRDs:      "correct the files in crds of the module; the next converge installs them",
	KindFull:        "enlarge the volume, or delete other files on it; the operator then goes on by itself",
	KindAPIServer:   "see the log and the metrics of the API server; the operator repeats its requests by itself",
	KindStalled:     "report the error with the log of the operator, and restart its pod: it goes on where it stopped",
	KindSlow:        "find out what the hook waits for: kubectl logs of the operator has its output. A timeout in its settings ends such runs",
	KindQuarantined: "find out why the operator died: kubectl describe pod (OOMKilled: raise the memory limit, or let the hook use less), kubectl logs --previous",
}

// fix says what a person must mend first.
func (p *Problem) fix() string {
	switch {
	case p.Fix != "" && p.Kind == KindRefused:
		return p.Fix + ". Until then the last valid content is in force"
	case p.Kind == KindFailing && p.Node == moduleAfterDeleteHelm && p.Meaning == nil:
		return "first make sure that the module is to be deleted, and what the hook deletes. Then correct what the error names; the step is then retried by itself"
	case p.Fix == "" && p.Meaning != nil:
		return p.Meaning.Fix
	case p.Fix == "" && p.Awaits != "":
		kind, object, _ := strings.Cut(p.Awaits, " ")
		namespace, name, _ := strings.Cut(object, "/")
		return "see why " + p.Awaits + " does not end: kubectl -n " + namespace + " describe " + strings.ToLower(kind) + " " + name +
			". Helm waits for it no longer than HELM_TIMEOUT; then the step fails and is retried"
	default:
		return cmp.Or(p.Fix, fixes[p.Kind])
	}
}
