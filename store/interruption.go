package store

// InterruptionKey returns the key of the interruption of the item that is done at node of graph about s. The record is
// the [Claim] on the item that ended with the process, left by a task that is gone: the run that the task was part of
// starts over. The task that does the item next takes the claim over, so that the hook is told of the interruption and
// crashes are counted.
func InterruptionKey(graph, node string, s Subject) Key {
	return At(Interruptions).Str(s.Module).Str(s.Hook).Str(s.Binding).Str(graph).Str(node).Opt(s.Configuration)
}

// InterruptionsOf returns the prefix of the interruptions of items of a module, or of items without a module.
func InterruptionsOf(module string) Key { return At(Interruptions).Str(module) }

// ParseInterruptionKey returns what [InterruptionKey] was called with.
func ParseInterruptionKey(k Key) (graph, node string, s Subject, err error) {
	p, err := k.Parts()
	if err != nil {
		return "", "", s, err
	}
	s.Module, s.Hook, s.Binding = p.Str(), p.Str(), p.Str()
	graph, node = p.Str(), p.Str()
	if p.More() {
		s.Configuration = p.Str()
	}
	return graph, node, s, p.Err()
}
