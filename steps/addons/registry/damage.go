package registry

import (
	"errors"

	"addon-operator/store"
)

// Recover does nothing if the record of a configuration can be read, or does not exist. Otherwise, it moves the record
// to the table of damaged records, unregisters the addons of the configuration, and drops its rounds. In the whole
// scope, Recover also unregisters each addon whose record cannot be read, and cannot be made again from the results of
// the round that registered the addon. After that, the configuration is unknown, and its next round registers its
// addons again. The result lost is the moved record; nil if no record was moved. The result freed reports whether
// addons were unregistered.
func Recover(tx *store.Tx, scope Scope, name string) (lost *store.Damaged, freed bool, err error) {
	key := store.ConfigurationKey(string(scope), name)
	_, _, err = store.Load[store.Configuration](tx, key)
	damaged := unreadable(err)
	if damaged == nil {
		return nil, false, err
	}
	id := store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
	record, moved, err := store.MoveDamaged(tx, id, key, damaged.Err)
	if err != nil {
		return nil, false, err
	}
	if moved {
		lost = &record
	}
	var before []offered
	for a, err := range In(tx, scope) {
		if err != nil {
			return nil, false, err
		}
		if a.Configuration == name {
			before = append(before, offered{id: a.ID, RegisteredAddon: a.RegisteredAddon})
		}
	}
	if freed, err = swap(tx, scope, before, nil); err != nil {
		return nil, false, err
	}
	dropped, err := dropUnreadable(tx, scope)
	if err != nil {
		return nil, false, err
	}
	return lost, freed || dropped, errors.Join(dropUnknown(tx), collect(tx))
}

// dropUnreadable deletes the records of the registered addons of a scope that can be neither read nor made again, and
// the records that lead from a name to one of these addons. It reports whether there were any.
func dropUnreadable(tx *store.Tx, scope Scope) (dropped bool, err error) {
	ids := map[string]bool{}
	for k := range tx.Range(store.AddonsOf(string(scope))) {
		_, id, err := store.ParseAddonKey(k)
		if err != nil {
			return false, err
		}
		_, ok, err := load(tx, scope, id)
		if err != nil {
			return false, err
		}
		if !ok {
			tx.Delete(k)
			ids[id] = true
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	for k := range tx.Range(store.At(store.AddonNames).Str(string(scope))) {
		id, _, err := store.Load[string](tx, k)
		if err != nil && unreadable(err) == nil {
			return false, err
		}
		if ids[id] {
			tx.Delete(k)
		}
	}
	return true, nil
}

// dropUnknown drops the rounds to which no configuration refers. If the record of any configuration cannot be read,
// dropUnknown drops no rounds, because it is unknown to which round this configuration refers.
func dropUnknown(tx *store.Tx) error {
	known := map[store.ID]bool{}
	for k := range tx.Range(store.At(store.Configurations)) {
		c, _, err := store.Load[store.Configuration](tx, k)
		if unreadable(err) != nil {
			return nil
		}
		if err != nil {
			return err
		}
		known[c.Round], known[c.Registered], known[c.Earlier] = true, true, true
	}
	live, err := store.LiveRounds(tx)
	for _, round := range live {
		if !known[round] {
			err = errors.Join(err, drop(tx, round))
		}
	}
	return err
}
