package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Type is the type of an [Element].
type Type string

// The types of elements. Elements of ordered bindings, such as beforeHelm, have no type.
const (
	TypeSchedule        Type = "Schedule"
	TypeSynchronization Type = "Synchronization"
	TypeEvent           Type = "Event"
	TypeGroup           Type = "Group"
	TypeValidating      Type = "Validating"
	TypeMutating        Type = "Mutating"
	TypeConversion      Type = "Conversion"
)

// Element is one element of the binding context: one reason for a run.
type Element struct {
	// Binding is the name of the binding. The name of an ordered binding is its key in the config, such as
	// beforeHelm.
	Binding string `json:"binding"`
	Type    Type   `json:"type"`
	// Group is the name of the group of the binding; empty if the binding has no group or the element has a Review. An
	// element with a Group contains only snapshots.
	Group string `json:"groupName"`
	// WatchEvent is set only for an event: it is Added, Modified or Deleted. Then Item is the object at the time of the
	// event.
	WatchEvent string `json:"watchEvent"`
	Item
	// Objects is set only for a Synchronization: it has all existing objects of the binding.
	Objects []Item `json:"objects"`
	// Snapshots are the objects of kubernetes bindings, by binding name. The comment of the function [Snapshot]
	// describes which snapshots are available.
	Snapshots map[string][]Item `json:"snapshots"`
	// FromVersion and ToVersion are the versions of a conversion.
	FromVersion string `json:"fromVersion"`
	ToVersion   string `json:"toVersion"`
	// Review is the request of the API server; [Element.AdmissionRequest] and [Element.ConversionObjects] decode this
	// request.
	Review json.RawMessage `json:"review"`
}

// Item is one object in a binding context.
type Item struct {
	// Object is the full object; nil if the binding sets keepFullObjectsInMemory to false. In an event, Object has only
	// the identity of the object if the object is too large, or was deleted while the operator did not watch it.
	Object json.RawMessage `json:"object"`
	// FilterResult is the result of the jqFilter of the binding. It is nil if the binding has no jqFilter, and the text
	// null if the filter returned nothing. In an event, FilterResult is also nil if the result is too large. If the
	// object was deleted while the operator did not watch it, the limit is 1 KiB.
	FilterResult json.RawMessage `json:"filterResult"`
}

// Decode decodes an item to a value of type T. It decodes the field FilterResult or, if FilterResult is nil, the field
// Object.
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
		return value, fmt.Errorf("the item is not of type %T: %w", value, err)
	}
	return value, nil
}

// DecodeAll calls [Decode] for each item.
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

// Snapshot decodes all objects of a kubernetes binding, sorted by namespace and name; see [Decode]. In runs for
// onStartup, no snapshots are available. In runs for other ordered bindings, all snapshots of the hook are available.
// In all other runs, the snapshot of a kubernetes binding is available only if the binding of the run names the
// kubernetes binding in includeSnapshotsFrom, or has the same group. All elements of a run have the same objects for a
// binding. Snapshot returns an error if the snapshot is not available, or if an object cannot be decoded.
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
	return nil, fmt.Errorf("snapshot %q: this run has only the snapshots [%s]; correct the name, or add it to includeSnapshotsFrom of the binding of this run (onStartup has no snapshots)",
		binding, strings.Join(slices.Compact(have), " "))
}
