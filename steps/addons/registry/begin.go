package registry

import (
	"errors"
	"time"

	"addon-operator/store"
)

// An Owner is a configuration at one generation of its spec.
type Owner struct {
	Scope      Scope
	Name       string
	UID        string
	Generation int64
	Created    time.Time
	// Modules is true if the configuration has the annotation for modules.
	Modules bool
	// Image is a checksum of the names of modules in the operator's image; see [store.Configuration].
	Image string
}

// Begin starts a round. Begin keeps the results and contents of the last complete round of the configuration until
// the new round ends, and drops those of an incomplete round. If an earlier configuration with the same name was
// deleted and its addons are still registered, Begin unregisters them. The result freed reports whether Begin has
// unregistered addons. The caller must have called [Recover] in the same transaction.
func Begin(tx *store.Tx, o Owner) (round store.ID, freed bool, err error) {
	old, ok, err := Lookup(tx, o.Scope, o.Name)
	if err != nil {
		return round, false, err
	}
	if ok && old.UID != o.UID {
		if freed, err = Withdraw(tx, o.Scope, o.Name); err != nil {
			return round, false, err
		}
		old = store.Configuration{}
	}
	earlier := old.Earlier
	switch {
	case old.Phase == store.PhaseFailed:
		earlier = old.Round
	case old.Round != old.Registered:
		if err := drop(tx, old.Round); err != nil {
			return round, false, err
		}
	}
	round = store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
	c := store.Configuration{
		UID: o.UID, Generation: o.Generation, Created: o.Created,
		Round: round, Registered: old.Registered, Earlier: earlier, Phase: store.PhasePending,
		Modules: o.Modules, Image: o.Image, Reasons: old.Reasons,
	}
	if old.Generation == o.Generation {
		c.Attempts = old.Attempts
	}
	if err := store.Save(tx, store.HolderKey(store.RoundHolder(round), false), true); err != nil {
		return round, false, err
	}
	return round, freed, errors.Join(save(tx, o.Scope, o.Name, c), collect(tx))
}
