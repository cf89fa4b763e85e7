package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Type is the type of an element.
type Type string

// The types of elements. Elements of ordered bindings have none.
const (
	TypeSchedule        Type = "Schedule"
	TypeSynchronization Type = "Synchronization"
	TypeEvent           Type = "Event"
	TypeGroup           Type = "Group"
	TypeValidating      Type = "Validating"
	TypeMutating        Type = "Mutating"
	TypeConversion      Type = "Conversion"
)

// Element is one reason for a run.
type Element struct {
	// Binding is the name of the binding. For an ordered binding it is that of the config's field,
	// such as beforeHelm.
	Binding string `json:"binding"`
	Type    Type   `json:"type"`
	// Group is the name of the group, if the binding has one. An element with a group contains only
	// snapshots.
	Group string `json:"groupName"`
	// WatchEvent is Added, Modified or Deleted, and Item the object at that time, for an event.
	WatchEvent string `json:"watchEvent"`
	Item
	// Objects are all existing objects, for a synchronization.
	Objects []Item `json:"objects"`
	// Snapshots are the objects of the bindings that the config includes, by binding.
	Snapshots map[string][]Item `json:"snapshots"`
	// FromVersion and ToVersion are the versions of a conversion.
	FromVersion string `json:"fromVersion"`
	ToVersion   string `json:"toVersion"`
	// Review is the request of the API server; [Element.AdmissionRequest] and
	// [Element.ConversionObjects] decode it.
	Review json.RawMessage `json:"review"`
}

// Item is one object in a binding context.
type Item struct {
	// Object is nil if full objects are not kept in memory.
	Object json.RawMessage `json:"object"`
	// FilterResult is nil without a jqFilter, and null if the filter returned nothing.
	FilterResult json.RawMessage `json:"filterResult"`
}

// Decode decodes an item as a T: the result of the jqFilter or, without a filter, the object.
func Decode[T any](item Item) (T, error) {
	var value T
	text := item.FilterResult
	if text == nil {
		text = item.Object
	}
	if text == nil {
		return value, errors.New("the item has neither a filter result nor an object: give the binding a jqFilter, or let it keep full objects")
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("the item is no %T: %w", value, err)
	}
	return value, nil
}

// DecodeAll decodes all items as Ts.
func DecodeAll[T any](items []Item) ([]T, error) {
	values := make([]T, len(items))
	for i, item := range items {
		value, err := Decode[T](item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		values[i] = value
	}
	return values, nil
}

// Snapshot decodes the objects of a kubernetes binding as Ts, sorted by namespace and name. All
// elements of a run have the same snapshots. In a run for a binding that is not an ordered one, the
// config must include the snapshots.
func Snapshot[T any](r *Run, binding string) ([]T, error) {
	var have []string
	for _, element := range r.Elements {
		if items, ok := element.Snapshots[binding]; ok {
			values, err := DecodeAll[T](items)
			if err != nil {
				return nil, fmt.Errorf("snapshot %s: %w", binding, err)
			}
			return values, nil
		}
		have = slices.AppendSeq(have, maps.Keys(element.Snapshots))
	}
	slices.Sort(have)
	return nil, fmt.Errorf("snapshot %q: this run has only the snapshots [%s]; add it to includeSnapshotsFrom of the hook's binding",
		binding, strings.Join(slices.Compact(have), " "))
}
