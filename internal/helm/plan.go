package helm

// plan contains the steps that deploy a release's chart, in the order of their execution. The last
// step is an installation or an upgrade.
type plan struct {
	remove    []record // revisions to remove, which killed actions have left
	uninstall bool     // an interrupted uninstall must be finished
	install   bool     // there will be no revision, so the chart is installed; otherwise the release is upgraded
}

// planFor chooses the steps for a release from its existing revisions, newest first.
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
