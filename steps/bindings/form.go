package bindings

import (
	"bytes"
	"encoding/json"
	"strings"

	"addon-operator/internal/hook"
	"addon-operator/store"
)

// noteChanges compares the configuration of a kubernetes binding in the record old with config, the configuration in
// the new record next. It sets FormChanged of next if the two configurations select other objects or give events
// another content, FilterChanged if they have different filters, and KindChanged if they name different kinds.
func noteChanges(next *store.Binding, old store.Binding, config hook.KubernetesBinding) error {
	var earlier hook.KubernetesBinding
	if err := json.Unmarshal(old.Config, &earlier); err != nil {
		return err
	}
	before, err := formOf(earlier)
	if err != nil {
		return err
	}
	now, err := formOf(config)
	if err != nil {
		return err
	}
	at := store.ID{Epoch: next.AttachedIn, N: next.Baseline}
	if !bytes.Equal(before, now) {
		next.FormChanged = at
	}
	if earlier.JqFilter != config.JqFilter {
		next.FilterChanged = at
	}
	if !sameKind(earlier, config) {
		next.KindChanged = at
	}
	return nil
}

// formOf encodes the part of a binding's configuration that decides which objects the binding selects, and what its
// events contain.
func formOf(c hook.KubernetesBinding) ([]byte, error) {
	return json.Marshal(hook.KubernetesBinding{
		Kind: c.Kind, APIVersion: c.APIVersion, KeepFullObjects: c.KeepFullObjects, JqFilter: c.JqFilter,
		NameSelector: c.NameSelector, LabelSelector: c.LabelSelector, FieldSelector: c.FieldSelector, Namespaces: c.Namespaces,
	})
}

// sameKind reports whether two configurations name the same kind. A configuration without an API version is treated as
// if it named the API group of the other one.
func sameKind(a, b hook.KubernetesBinding) bool {
	return strings.EqualFold(a.Kind, b.Kind) && (a.APIVersion == "" || b.APIVersion == "" || groupOfVersion(a.APIVersion) == groupOfVersion(b.APIVersion))
}

// groupOfVersion returns the API group of an API version; "" for the core group.
func groupOfVersion(version string) string {
	group, _, found := strings.Cut(version, "/")
	if !found {
		return ""
	}
	return group
}
