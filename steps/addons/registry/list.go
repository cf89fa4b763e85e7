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

// In yields the registered addons of a scope by ID.
func In(tx *store.Tx, scope Scope) iter.Seq2[Addon, error] {
	return addons(tx, store.AddonsOf(string(scope)))
}

func addons(tx *store.Tx, prefix store.Key) iter.Seq2[Addon, error] {
	return func(yield func(Addon, error) bool) {
		for k := range tx.Range(prefix) {
			namespace, id, err := store.ParseAddonKey(k)
			a := Addon{Scope: Scope(namespace), ID: id}
			if err == nil {
				a.RegisteredAddon, _, err = store.Load[store.RegisteredAddon](tx, k)
			}
			if !yield(a, err) {
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
	a, ok, err := store.Load[store.RegisteredAddon](tx, store.AddonKey(string(scope), id))
	return Addon{Scope: scope, ID: id, RegisteredAddon: a}, ok, err
}

// A Configuration is an addons configuration that the registry has a record of.
type Configuration struct {
	Scope Scope
	Name  string
	store.Configuration
}

// Configurations yields all configurations by scope and name.
func Configurations(tx *store.Tx) iter.Seq2[Configuration, error] {
	return configurations(tx, store.At(store.Configurations))
}

// ConfigurationsIn yields the configurations of a scope by name.
func ConfigurationsIn(tx *store.Tx, scope Scope) iter.Seq2[Configuration, error] {
	return configurations(tx, store.ConfigurationsOf(string(scope)))
}

func configurations(tx *store.Tx, prefix store.Key) iter.Seq2[Configuration, error] {
	return func(yield func(Configuration, error) bool) {
		for k := range tx.Range(prefix) {
			namespace, name, err := store.ParseConfigurationKey(k)
			c := Configuration{Scope: Scope(namespace), Name: name}
			if err == nil {
				c.Configuration, _, err = store.Load[store.Configuration](tx, k)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
