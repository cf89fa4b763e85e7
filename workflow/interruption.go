package workflow

import (
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// noteInterruption saves the claim that an earlier process made on t, for the next task with the
// same item. The caller removes t, and a later task does the work of t again. With the saved claim,
// the hook learns of the interruption, and later crashes are added to the crashes of the claim.
func noteInterruption(tx *store.Tx, t *store.Task) error {
	if t.Claim == nil || t.Claim.Epoch == 0 || claimed(tx, t) {
		return nil
	}
	item, err := itemOf(tx, t)
	if err != nil {
		return err
	}
	return store.Save(tx, store.InterruptionKey(t.Graph, t.Node, item), t.Claim)
}

// forgetInterruptions deletes the claims that are saved for the skipped task t: the claim on the
// current item of t or, if the fan-out of t is not created yet, the claims on all items.
func forgetInterruptions(tx *store.Tx, n *graph.Node, t *store.Task) error {
	if n == nil || n.ForEach == "" || t.FanOut != nil {
		item, err := itemOf(tx, t)
		if err != nil {
			return err
		}
		tx.Delete(store.InterruptionKey(t.Graph, t.Node, item))
		return nil
	}
	for k := range tx.Range(store.InterruptionsOf(t.Subject.Module)) {
		item, ok, err := store.InterruptedItem(k, t.Graph, t.Node)
		if err != nil {
			return err
		}
		if ok && isWithin(item, t.Subject) {
			tx.Delete(k)
		}
	}
	return nil
}

// isWithin reports whether item can be an item of the fan-out of a task with the subject s: its
// module is that of s (or both have none), and it matches the hook and the binding of s, if s has
// them. If s is a configuration, all configurations of the same scope can be items.
func isWithin(item, s graph.Subject) bool {
	return item.Module == s.Module && (s.Hook == "" || item.Hook == s.Hook) && (s.Binding == "" || item.Binding == s.Binding) &&
		(s.Configuration == "" || item.Configuration != "" && scopeOf(item.Configuration) == scopeOf(s.Configuration))
}

// scopeOf returns the scope of a configuration: its namespace, which is the part of its name before
// the slash. All cluster-wide configurations have the empty scope.
func scopeOf(configuration string) string {
	namespace, _, namespaced := strings.Cut(configuration, "/")
	if !namespaced {
		return ""
	}
	return namespace
}
