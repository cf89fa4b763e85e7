package helm

// plan contains the steps, in this order, that deploy a release's chart.
type plan struct {
	remove    []record // revisions of killed actions, to be removed
	uninstall bool     // an interrupted uninstall must be finished
	install   bool     // there is no revision yet, so the plan is an installation
}

// planFor chooses the steps from the existing revisions, newest first.
func planFor(history []record) plan {
	var p plan
	for len(history) > 0 && statusOf(history[0].status) == Pending {
		p.remove = append(p.remove, history[0])
		history = history[1:]
	}
	p.uninstall = len(history) > 0 && statusOf(history[0].status) == Uninstalling
	p.install = len(history) == 0 || p.uninstall
	return p
}
