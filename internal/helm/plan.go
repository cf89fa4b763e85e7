package helm

// plan is what must be done, in this order, for a release's chart to be in force.
type plan struct {
	remove    []record // revisions of killed actions, to be forgotten
	uninstall bool     // to be finished
	install   bool     // there is nothing to upgrade
}

// planFor chooses how to go on from the revisions found, the newest first.
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
