package modulerun

import "addon-operator/store"

// A Survey compares the directory of a module with the files that its last run used.
type Survey interface {
	// RunBegan records, after the commit of tx, that a run of module has begun.
	RunBegan(tx *store.Tx, module string)
	// RunEnded records, after the commit of tx, that a run of module has ended.
	RunEnded(tx *store.Tx, module string)
}

// An Observer is notified of module runs, to log and count them. An Observer does not influence the steps.
type Observer interface {
	// ModuleRan is called after the commit that ends a run of module.
	ModuleRan(module string)
}
