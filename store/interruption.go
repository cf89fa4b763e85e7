package store

import "addon-operator/workflow/graph"

// InterruptionKey returns the key of the record of an interruption: a process ended while it processed the item with
// the subject s at this node of this graph. The record has the [Claim] of that process on the item. The task of the
// item has been deleted, because its run starts over at an earlier step, or because the item was in quarantine. The
// next task with the same item gets the claim, so that the hook learns of the interruption and, unless the claim is
// excused, crashes are counted.
func InterruptionKey(graph, node string, s graph.Subject) Key {
	return At(Interruptions).Str(s.Module).Str(s.Hook).Str(s.Binding).Str(graph).Str(node).Opt(s.Configuration)
}

// InterruptionsOf returns the prefix of the keys of the interruptions of the module's items. If module is empty, it
// returns the prefix for the items without a module.
func InterruptionsOf(module string) Key { return At(Interruptions).Str(module) }

// InterruptedItem returns the item in k, which is the key of an interruption. The result ok reports whether the item
// belongs to this node of this graph.
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
