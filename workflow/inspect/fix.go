package inspect

import (
	"cmp"
	"strconv"
	"strings"

	"addon-operator/store"
)

// fixes has the fixes for some kinds of problems. A fix in this map is used if neither the problem nor the meaning of
// its error has a fix.
var fixes = map[Kind]string{
	KindFailing:     "correct what the error names" + thenRetried,
	KindRefused:     "correct the ConfigMap; until then the last valid content is in force",
	KindBroken:      "correct the files of the module; the operator then loads it by itself",
	KindNoCRDs:      "correct the files in crds of the module; the next converge installs them",
	KindFull:        "enlarge the volume, or delete other files on it; the operator then goes on by itself",
	KindAPIServer:   "see the log and the metrics of the API server; the operator repeats its requests by itself",
	KindStalled:     "report the error with the log of the operator, and restart its pod: it goes on where it stopped",
	KindSlow:        "find out what the hook waits for: the log of the operator (kubectl logs) has the output of the hook. A timeout in the settings of the hook ends such runs",
	KindQuarantined: "find out why the operator died: kubectl describe pod (OOMKilled: raise the memory limit, or let the hook use less), kubectl logs --previous",
}

// fixChart is the fix of a failing step that renders a chart, if the meaning of its error is not known.
const fixChart = "correct what the error names: the chart of the module, or values in its values.yaml or in the ConfigMap" + thenRetried

// thenRetried is the end of a fix of a failing step.
const thenRetried = "; the operator then retries the step"

// keeps says, for nodes that delete a module, how a person can keep the module if the node fails.
var keeps = map[string]string{
	moduleBeforeDeleteHelm: "To keep the module, enable it again: the operator then stops deleting it",
	releaseDelete:          "To keep the module, enable it again: the operator then stops deleting it, and installs missing objects",
	moduleAfterDeleteHelm:  "To keep the module, enable it again: it is installed once this hook has succeeded",
}

// fix says what a person must do first about p and, if p is a failing deletion, how to keep the module.
func (p *Problem) fix() string { return p.mend() + p.keep() }

// keep returns a sentence that says how to keep the module, to be added to a fix; empty if p is no failing deletion.
func (p *Problem) keep() string {
	if keep := keeps[p.Node]; keep != "" && p.Kind == KindFailing {
		return ". " + keep
	}
	return ""
}

// mend returns the text of the method fix without the sentence about keeping the module.
func (p *Problem) mend() string {
	switch {
	case p.Fix != "" && p.Kind == KindRefused:
		return p.Fix + ". Until then the last valid content is in force"
	case p.Kind == KindFailing && p.Node == moduleAfterDeleteHelm && p.Meaning == nil:
		return "first make sure that the module must be deleted, and find out what the hook deletes. Then correct what the error names; the operator then retries the step"
	case p.Fix == "" && p.Meaning != nil:
		return p.Meaning.Fix
	case p.Kind == KindFailing && (p.Node == releaseCheck || p.Node == releaseUpgrade):
		return fixChart
	case p.Kind == KindSlow && p.Node == discoverModules:
		return "find out what the enabled script waits for: the log of the operator (kubectl logs) has its output. The flag --hook-timeout ends such runs"
	case p.Fix == "" && p.Awaits != "":
		kind, object, _ := strings.Cut(p.Awaits, " ")
		namespace, name, _ := strings.Cut(object, "/")
		return "see why " + p.Awaits + " does not end: kubectl -n " + namespace + " describe " + strings.ToLower(kind) + " " + name +
			". Helm waits for it no longer than HELM_TIMEOUT; then the step fails and is retried"
	default:
		return cmp.Or(p.Fix, fixes[p.Kind])
	}
}

// fixAfter returns the text of the method fix, and adds suggestions that follow from the changes before the first
// failure. The newest change is the first in changes. If a change of the ConfigMap enabled the module, fixAfter adds
// how to disable it. Otherwise, if neither a fix nor the meaning of the error is known, fixAfter searches for the
// newest change of values that the step can read, and adds these values. The values are redacted as in the history. For
// a failing afterDeleteHelm hook, fixAfter adds no values.
func (p *Problem) fixAfter(changes []CauseStep) string {
	if flag := p.enabledBy(changes); flag != "" {
		return p.fix() + ". To go on without the module, set " + flag + " to false in the ConfigMap"
	}
	if p.Kind != KindFailing || p.Fix != "" || p.Meaning != nil || p.Node == moduleAfterDeleteHelm {
		return p.fix()
	}
	for i := range changes {
		if text := p.describeChanges(changes[i].Changes); text != "" {
			return strings.TrimSuffix(p.mend(), thenRetried) + ". Before the step failed, the ConfigMap " + text +
				": if that is wrong, correct the ConfigMap. The operator then retries the step" + p.keep()
		}
	}
	return p.fix()
}

// enabledBy returns the flag with which one of the changes enabled the module of the failing step p; empty if no change
// did.
func (p *Problem) enabledBy(changes []CauseStep) string {
	for i := range changes {
		if changes[i].Changes == nil {
			continue
		}
		for _, c := range changes[i].Changes.List {
			flag := strings.TrimPrefix(c.Path, "/")
			module, isFlag := strings.CutSuffix(flag, "Enabled")
			if isFlag && c.New == "true" && p.Kind == KindFailing && strings.EqualFold(module, strings.ReplaceAll(p.Subject.Module, "-", "")) {
				return flag
			}
		}
	}
	return ""
}

// describeChanges describes the changed values that the step of p can read: the values of its
// module and the global values. The result is empty if none of these values changed.
func (p *Problem) describeChanges(changes *store.ValueChanges) string {
	if changes == nil {
		return ""
	}
	const most = 3
	var parts []string
	more := 0
	for _, c := range changes.List {
		section, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/"), "/")
		ofModule := strings.EqualFold(section, strings.ReplaceAll(p.Subject.Module, "-", ""))
		switch {
		case section != "global" && !ofModule:
		case len(parts) == most:
			more++
		case c.Old == "":
			parts = append(parts, "set "+c.Path+" to "+c.New)
		case c.New == "":
			parts = append(parts, "removed "+c.Path+", which was "+c.Old)
		default:
			parts = append(parts, "changed "+c.Path+" from "+c.Old+" to "+c.New)
		}
	}
	if len(parts) > 0 && more > 0 {
		parts = append(parts, strconv.Itoa(more)+" more")
	}
	return strings.Join(parts, ", ")
}
