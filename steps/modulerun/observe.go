package modulerun

import "addon-operator/store"

// A Survey compares the directory of a module with the one that its last run used.
type Survey interface {
	// RunBegan notes, when tx is committed, that a run of module has begun.
	RunBegan(tx *store.Tx, module string)
	// RunEnded notes, when tx is committed, that a run of module has ended.
	RunEnded(tx *store.Tx, module string)
}

// An Observer is notified of module runs. It logs and counts. No step depends on it.
type Observer interface {
	// ModuleRan is called after the commit that ends a run of module.
	ModuleRan(module string)
}

// Changes is notified of changes of releases, after the commit.
type Changes interface {
	// ReleaseChanged follows the commit that ends a run of module, and with it the work on its release.
	ReleaseChanged(module string)
}
