package steps

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/store"
)

// Layers returns what the values of the global section and of the sections
// named by keys are made of: the files as scanned last, and what tx has of the
// ConfigMap and of hooks' patches. They are not to be changed.
func (v *Values) Layers(tx *store.Tx, keys ...string) (values.Layers, error) {
	return v.layers(tx, keys...)
}

// Code returns one checksum over all that the lifecycle runs: the global hooks,
// the modules of set with their values files and flags, and what else is given.
// Of files that have not changed since they were last read by a step or by Code
// nothing is read.
func (d *Modules) Code(set module.Set, more ...string) (string, error) {
	sum := sha256.New()
	global, err := d.digests.GlobalHooks(d.globalHooks)
	if err != nil {
		return "", err
	}
	static, err := values.Checksum(set.Static)
	if err != nil {
		return "", fmt.Errorf("values of %q: %w", d.dirs, err)
	}
	_, _ = fmt.Fprintln(sum, more, global, static) // a hash takes what it is given
	for _, m := range set.Modules {
		own, crds := "broken", ""
		if m.Broken == nil {
			if own, err = d.digests.Module(m); err != nil {
				return "", err
			}
			if crds, err = d.digests.CRDs(m); err != nil {
				return "", err
			}
		}
		_, _ = fmt.Fprintln(sum, m.Order, m.Name, own, crds, m.Flags)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}
