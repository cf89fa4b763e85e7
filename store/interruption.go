package store

import "addon-operator/workflow/graph"

// InterruptionKey returns the key of the interruption of the item that is done at node of graph about s. The record is
// the [Claim] on the item that ended with the process, left by a task that is gone: the run that the task was part of
// starts over. The task that does the item next takes the claim over, so that the hook is told of the interruption and
// crashes are counted.
func InterruptionKey(graph, node string, s graph.Subject) Key {
	return At(Interruptions).Str(s.Module).Str(s.Hook).Str(s.Binding).Str(graph).Str(node).Opt(s.Configuration)
}

// InterruptionsOf returns the prefix of the interruptions of items of a module, or of items without a module.
func InterruptionsOf(module string) Key { return At(Interruptions).Str(module) }

// InterruptedItem returns the item of an interruption, and whether it is done at node of graph.
func InterruptedItem(k Key, graph, node string) (item graph.Subject, ok bool, err error) {
	p, err := k.Parts()
	if err != nil {
		return item, false, err
	}
	item.Module, item.Hook, item.Binding = p.Str(), p.Str(), p.Str()
	ofGraph, atNode := p.Str(), p.Str()
	if p.More() {
		item.Configuration = p.Str()
	}
	return item, ofGraph == graph && atNode == node, p.Err()
}
