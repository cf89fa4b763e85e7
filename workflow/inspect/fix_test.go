package inspect

import (
	"testing"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

func TestFixNamesTheValuesOfTheModuleThatChangedBeforeTheFailure(t *testing.T) {
	t.Parallel()
	change := func(path, old, now string) store.ValueChange {
		return store.ValueChange{Path: path, Old: old, New: now}
	}
	changed := func(list ...store.ValueChange) []CauseStep {
		return []CauseStep{{Text: "start of the operator"}, {Changes: &store.ValueChanges{List: list}}, {Text: "the step succeeded last"}}
	}
	const before, after = "correct what the error names. Before the step failed, the ConfigMap ", ": if that is wrong, correct the ConfigMap. The operator then retries the step"
	unknown := Problem{Kind: KindFailing, Node: "module-beforehelm", Subject: graph.Subject{Module: "my-web", Hook: "hooks/size.sh"}}
	deletion, release, upgrade := unknown, unknown, unknown
	deletion.Node, release.Node, upgrade.Node = moduleBeforeDeleteHelm, releaseDelete, releaseUpgrade
	size := change("/myWeb/size", "1", "2")
	const changedSize = "changed /myWeb/size from 1 to 2"
	known := unknown
	known.Meaning = &Meaning{Fix: "renew it"}
	for name, c := range map[string]struct {
		problem Problem
		changes []CauseStep
		want    string
	}{
		"changed":        {unknown, changed(change("/myWeb/size", `"1"`, `"huge"`)), before + `changed /myWeb/size from "1" to "huge"` + after},
		"redacted":       {unknown, changed(change("/myWeb/password", "redacted 4f0c", "redacted 77aa")), before + "changed /myWeb/password from redacted 4f0c to redacted 77aa" + after},
		"set":            {unknown, changed(change("/global/zone", "", `"b"`)), before + `set /global/zone to "b"` + after},
		"removed":        {unknown, changed(change("/myWeb/size", "1", "")), before + "removed /myWeb/size, which was 1" + after},
		"another module": {unknown, changed(change("/db/size", "1", "2")), fixes[KindFailing]},
		"many": {
			unknown, changed(change("/myWeb/a", "", "1"), change("/myWeb/b", "", "1"), change("/myWeb/c", "", "1"), change("/myWeb/d", "", "1")),
			before + "set /myWeb/a to 1, set /myWeb/b to 1, set /myWeb/c to 1, 1 more" + after,
		},
		"no change":               {unknown, nil, fixes[KindFailing]},
		"enabled":                 {known, changed(change("/myWebEnabled", "", "true")), "renew it. To go on without the module, set myWebEnabled to false in the ConfigMap"},
		"another enabled":         {known, changed(change("/dbEnabled", "", "true")), "renew it"},
		"deletion":                {deletion, changed(size), before + changedSize + after + ". " + keeps[moduleBeforeDeleteHelm]},
		"deletion of the release": {release, changed(size), before + changedSize + after + ". " + keeps[releaseDelete]},
		"chart": {
			upgrade, changed(size),
			"correct what the error names: the chart of the module, or values in its values.yaml or in the ConfigMap. Before the step failed, the ConfigMap " + changedSize + after,
		},
		"an error is known": {known, changed(change("/myWeb/size", "1", "2")), "renew it"},
	} {
		if got := c.problem.fixAfter(c.changes); got != c.want {
			t.Errorf("%s: the fix is %q, want %q", name, got, c.want)
		}
	}
}
