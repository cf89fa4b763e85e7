package helm

// plan says which steps deploy the chart of a release. The fields are in the order of execution. The last step is
// always an installation or an upgrade.
type plan struct {
	gather    bool     // whether to look for objects that only a failed or killed revision has created
	remove    []record // revisions to remove, because a process was killed while it applied them
	uninstall bool     // whether to finish an interrupted uninstall
	install   bool     // whether to install the chart, because no revision is left; otherwise the release is upgraded
}

// planFor chooses the steps for a release. history has its existing revisions, newest first.
func planFor(history []record) plan {
	p := plan{gather: len(history) > 0 && statusOf(history[0].status) != Deployed}
	for len(history) > 0 && statusOf(history[0].status) == Pending {
		p.remove = append(p.remove, history[0])
		history = history[1:]
	}
	p.uninstall = len(history) > 0 && statusOf(history[0].status) == Uninstalling
	p.install = len(history) == 0 || p.uninstall
	return p
}
