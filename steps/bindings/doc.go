// Package bindings has the attached bindings of hooks: their records match the config of the hooks,
// and a hook is shown what its bindings select. It knows the hooks only as the store has them.
package bindings
