package story

import (
	"errors"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"addon-operator/e2e/cluster"
)

var clusterCommands = map[string]command{"cluster": runCluster}

// An ownCluster is a control plane that only one story uses.
type ownCluster struct {
	t       *testing.T
	dir     string
	cluster *cluster.Cluster
}

func (o *ownCluster) start() *cluster.Cluster {
	o.cluster = cluster.Launch(o.t, o.dir)
	return o.cluster
}

// runCluster implements the command "cluster kill|start": it kills the control plane of the story, or starts it again.
func runCluster(w *environment, _ *testscript.TestScript, args []string) error {
	if w.own == nil {
		return errors.New("the story has no file own-cluster, so it shares the cluster with others")
	}
	switch {
	case len(args) == 1 && args[0] == "kill":
		w.own.cluster.Kill()
	case len(args) == 1 && args[0] == "start":
		w.own.start()
	default:
		return usage("cluster kill|start")
	}
	return nil
}
