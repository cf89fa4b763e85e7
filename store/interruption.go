package store

// InterruptionKey returns the key of the interruption of the item that is done at node of graph about s. The record is
// the [Claim] on the item that ended with the process, left by a task that is gone: the run that the task was part of
// starts over. The task that does the item next takes the claim over, so that the hook is told of the interruption and
// crashes are counted.
func InterruptionKey(graph, node string, s Subject) Key {
	return At(Interruptions).Str(s.Module).Str(s.Hook).Str(s.Binding).Str(graph).Str(node).Opt(s.Configuration)
}
