package helm_test

import (
	"testing"

	"addon-operator/internal/helm"
)

const noReconciliation = "maintenance.deckhouse.io/no-resource-reconciliation"

func TestObjectsAndRecordSayWhetherTheyAreMaintained(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := module(t, "kept", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("kept")})
	plain, _ := b.apply(t, r)
	if got := b.record(t, "kept", 1).Labels[noReconciliation]; got != "false" {
		t.Errorf("the record says %q", got)
	}

	r.Maintained = true
	maintained, revision := b.apply(t, r)
	if maintained.Checksum == plain.Checksum || revision != 2 {
		t.Errorf("revision %d with checksum %s, before %s", revision, maintained.Checksum, plain.Checksum)
	}
	b.state(t, "kept", helm.State{Status: helm.Deployed, Revision: 2, Checksum: maintained.Checksum, Maintained: true})
	got, _ := b.configMap(t, "kept")
	if value, has := got.Labels[noReconciliation]; !has || value != "" {
		t.Errorf("labels of the object are %v", got.Labels)
	}
	b.relabel(t, "kept", 2, "failed")
	b.state(t, "kept", helm.State{Status: helm.Failed, Revision: 2})

	r.Maintained = false
	b.apply(t, r)
	b.state(t, "kept", helm.State{Status: helm.Deployed, Revision: 3, Checksum: plain.Checksum})
	got, _ = b.configMap(t, "kept")
	if _, has := got.Labels[noReconciliation]; has {
		t.Errorf("the label stays: %v", got.Labels)
	}
}
