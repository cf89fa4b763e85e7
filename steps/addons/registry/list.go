package registry

import (
	"iter"

	"addon-operator/store"
)

// An Addon is a registered addon.
type Addon struct {
	Scope Scope
	ID    string
	store.RegisteredAddon
}

// All yields the registered addons of all scopes, by scope and ID.
func All(tx *store.Tx) iter.Seq2[Addon, error] { return addons(tx, store.At(store.Addons)) }

// In yields the registered addons of a scope by ID. If the record of an addon cannot be read, In makes it again from the
// results of the round that has registered the addon. If that is not possible, In leaves out the addon.
func In(tx *store.Tx, scope Scope) iter.Seq2[Addon, error] {
	return addons(tx, store.AddonsOf(string(scope)))
}

func addons(tx *store.Tx, prefix store.Key) iter.Seq2[Addon, error] {
	return func(yield func(Addon, error) bool) {
		for k := range tx.Range(prefix) {
			namespace, id, err := store.ParseAddonKey(k)
			a, ok := Addon{Scope: Scope(namespace), ID: id}, true
			if err == nil {
				a.RegisteredAddon, ok, err = load(tx, a.Scope, id)
			}
			if (ok || err != nil) && !yield(a, err) {
				return
			}
		}
	}
}

// Count returns the number of registered addons in each scope. It reads only the keys of their records.
func Count(tx *store.Tx) (map[Scope]int, error) {
	counts := map[Scope]int{}
	for k := range tx.Range(store.At(store.Addons)) {
		namespace, _, err := store.ParseAddonKey(k)
		if err != nil {
			return nil, err
		}
		counts[Scope(namespace)]++
	}
	return counts, nil
}

// Find returns the registered addon with this ID in a scope, and whether the scope has one.
func Find(tx *store.Tx, scope Scope, id string) (Addon, bool, error) {
	a, ok, err := load(tx, scope, id)
	return Addon{Scope: scope, ID: id, RegisteredAddon: a}, ok, err
}

// load returns the record of a registered addon, and whether the addon is registered. If the record cannot be read,
// load makes it again from the results of the round that has registered the addon.
func load(tx *store.Tx, scope Scope, id string) (store.RegisteredAddon, bool, error) {
	a, ok, err := store.Load[store.RegisteredAddon](tx, store.AddonKey(string(scope), id))
	if unreadable(err) == nil {
		return a, ok, err
	}
	for c, err := range ConfigurationsIn(tx, scope) {
		if err != nil {
			return store.RegisteredAddon{}, false, err
		}
		registered, err := offersOf(tx, c.Name, c.Registered)
		if err != nil && unreadable(err) == nil {
			return store.RegisteredAddon{}, false, err
		}
		for _, o := range registered {
			if o.id == id {
				return o.RegisteredAddon, true, nil
			}
		}
	}
	return store.RegisteredAddon{}, false, nil
}

// find returns the ID of the registered addon with this name and normalized version, and whether there is one. If the
// record that leads from the name to the ID cannot be read, find reads all addons of the scope.
func find(tx *store.Tx, scope Scope, name, normal string) (id string, ok bool, err error) {
	id, ok, err = store.Load[string](tx, store.AddonNameKey(string(scope), name, normal))
	if unreadable(err) == nil {
		return id, ok, err
	}
	for a, err := range In(tx, scope) {
		if err != nil || a.Name == name && a.Normal == normal {
			return a.ID, err == nil, err
		}
	}
	return "", false, nil
}

// A Configuration is an addons configuration that the registry has a record of.
type Configuration struct {
	Scope Scope
	Name  string
	store.Configuration
}

// Configurations yields all configurations whose records can be read, by scope and name.
func Configurations(tx *store.Tx) iter.Seq2[Configuration, error] {
	return configurations(tx, store.At(store.Configurations))
}

// ConfigurationsIn yields the configurations of a scope whose records can be read, by name.
func ConfigurationsIn(tx *store.Tx, scope Scope) iter.Seq2[Configuration, error] {
	return configurations(tx, store.ConfigurationsOf(string(scope)))
}

func configurations(tx *store.Tx, prefix store.Key) iter.Seq2[Configuration, error] {
	return func(yield func(Configuration, error) bool) {
		for k := range tx.Range(prefix) {
			namespace, name, err := store.ParseConfigurationKey(k)
			c, ok := Configuration{Scope: Scope(namespace), Name: name}, true
			if err == nil {
				c.Configuration, ok, err = Lookup(tx, c.Scope, name)
			}
			if (ok || err != nil) && !yield(c, err) {
				return
			}
		}
	}
}
