package hookrun

import (
	"fmt"
	"strings"

	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow"
)

// Gate returns the reason why the hook of t cannot run yet for events, schedule ticks and Synchronizations, or "" if it
// can. The first possible reason is that the module of the hook cannot be loaded, or has no directory. The second is that
// another step must run first in this start: the onStartup hooks of the module (for a global hook, the global onStartup
// hooks), or the Synchronization of the hook. Only events and schedule ticks wait for the Synchronization. If the code of
// the hook has changed in this start, the onStartup hooks of the module must run again.
func (s *Step) Gate(tx *store.Tx, t *store.Task) (awaits string, err error) {
	if !s.node.Batch && !s.synchronizes() {
		return "", nil
	}
	if awaits, err := awaitsRepair(tx, t.Subject.Module); awaits != "" || err != nil {
		return awaits, err
	}
	l, err := store.LoadStartup(tx)
	if err != nil {
		return "", err
	}
	unsynced := ""
	for k := range tx.Range(store.BindingsOf(t.Subject.Module, t.Subject.Hook)) {
		b, _, err := store.Load[store.Binding](tx, k)
		if err != nil {
			return "", err
		}
		switch {
		case b.Detached:
		case b.AttachedInStart != 0 && b.AttachedInStart != l.StartRun:
			if t.Subject.Module == "" {
				return "the onStartup hooks have yet to run in this start", nil
			}
			return fmt.Sprintf("module %s has yet to run its onStartup hooks in this start", t.Subject.Module), nil
		case b.Kind == store.Kubernetes && b.SyncedIn != l.StartRun && unsynced == "":
			subject, err := store.ParseBindingKey(k)
			if err != nil {
				return "", err
			}
			unsynced = subject.String()
		}
	}
	if unsynced == "" || s.synchronizes() {
		return "", nil
	}
	return unsynced + " has yet to run Synchronization in this start", nil
}

// awaitsRepair returns the reason why the module cannot be loaded, or that it has no directory. It returns "" if the
// module can be loaded, or if module is empty.
func awaitsRepair(tx *store.Tx, module string) (string, error) {
	if module == "" {
		return "", nil
	}
	m, _, err := store.Load[store.Module](tx, store.ModuleKey(module))
	if m.Missing {
		return fmt.Sprintf("module %s has no directory", module), err
	}
	if err != nil || m.Broken == "" {
		return "", err
	}
	why, _, _ := strings.Cut(m.Broken, "\n")
	return fmt.Sprintf("module %s cannot be loaded: %s", module, why), nil
}

// Skipped is called in the transition that ends the task t without a run of its hook. If t is a Synchronization,
// Skipped marks its binding as synchronized, so that the events of the binding do not wait.
func (s *Step) Skipped(tx *store.Tx, t workflow.Task) error {
	if !s.synchronizes() {
		return nil
	}
	_, err := bindings.Synchronized(tx, t.Subject, nil)
	return err
}
