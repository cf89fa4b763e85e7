package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Type says why an element of a binding context exists, such as "Event".
type Type string

// The types of elements. Elements for ordered bindings have no type. An element whose binding has a group is encoded
// with the type "Group", unless it has a review.
const (
	TypeSchedule        Type = "Schedule"
	TypeSynchronization Type = "Synchronization"
	TypeEvent           Type = "Event"
	TypeValidating      Type = "Validating"
	TypeMutating        Type = "Mutating"
	TypeConversion      Type = "Conversion"
)

// Item is one Kubernetes object in the form in which hooks receive it. Both fields are JSON.
type Item struct {
	// Object is the full object. It is nil, and absent in the encoding, if the binding does not keep full objects in
	// memory.
	Object json.RawMessage `json:"object,omitempty"`
	// FilterResult is the result of the jqFilter for the object. It is nil, and absent in the encoding, if the binding
	// has no jqFilter. It is the JSON value null if the filter returned nothing.
	FilterResult json.RawMessage `json:"filterResult,omitempty"`
}

// Element is one element of the binding context. It is one reason why the hook runs.
type Element struct {
	// Binding is the name of the binding that causes the run.
	Binding string
	// Type is "" for the ordered bindings.
	Type Type
	// Group is the group of the binding, or "" if the binding has none. If Group is set and Review is nil, the hook
	// gets only the binding name, the type "Group", the group and the snapshots of this element. If Review is set, the
	// hook does not get the group.
	Group string
	// WatchEvent is Added, Modified or Deleted. It is set only if Type is Event.
	WatchEvent string
	// Item is the changed object at the time of the change. It is set only if Type is Event.
	Item Item
	// Objects are all objects that the binding selects. They are set only if Type is Synchronization.
	Objects []Item
	// Review is the review request of the API server as JSON. It is set only if Type is Validating, Mutating or
	// Conversion. It is encoded even if the binding has a group.
	Review json.RawMessage
	// FromVersion and ToVersion are the API versions between which to convert. They are set only if Type is
	// Conversion.
	FromVersion, ToVersion string
	// Snapshots are the snapshots that the hook gets, by the name of the kubernetes binding. If the map is nil, it is
	// absent in the encoding; an empty map is encoded as {}. Elements may share slices: [Encode] validates a shared
	// slice only once.
	Snapshots map[string][]Item
	// Legacy is set if the hook has a config in the format [V0]. The element is then encoded in the legacy form, which
	// contains only the binding name and, if Type is Event, the kind of change and the value of the field Named.
	Legacy bool
	Named  Named
}

// Named identifies the changed object of an element with the type Event.
type Named struct{ Kind, Namespace, Name string }

// Encode returns the binding context with these elements, as a JSON array.
func Encode(elements []Element) ([]byte, error) {
	e := encoder{out: make([]byte, 0, roughSize(elements)), written: map[*Item]span{}}
	e.raw("[")
	for i, element := range elements {
		if i > 0 {
			e.raw(",")
		}
		if err := e.element(element); err != nil {
			return nil, fmt.Errorf("binding context, element %d (%s): %w", i, element.Binding, err)
		}
	}
	e.raw("]")
	return e.out, nil
}

// MarshalJSON encodes the element in the form in which hooks receive it. An Element cannot be decoded: if its binding
// has a group, the encoding does not contain its type and its object.
func (e Element) MarshalJSON() ([]byte, error) {
	encoder := encoder{written: map[*Item]span{}}
	if err := encoder.element(e); err != nil {
		return nil, err
	}
	return encoder.out, nil
}

// Compact returns elements without those that are directly followed by an element of the same group. The hook does not
// need the removed elements, because each element of a group contains the snapshots of all kubernetes bindings of the
// group. Compact does not change its argument.
func Compact(elements []Element) []Element {
	kept := make([]Element, 0, len(elements))
	for i, element := range elements {
		if i+1 < len(elements) && element.Group != "" && elements[i+1].Group == element.Group {
			continue
		}
		kept = append(kept, element)
	}
	return kept
}

// encoder appends JSON to out. Objects are large and already JSON, so the encoder validates and copies them, and does
// not parse them into Go values. A thousand elements may contain the same snapshot. The encoder validates the snapshot
// once, and then copies its encoding from out.
type encoder struct {
	out     []byte
	written map[*Item]span
}

// span is the position in out at which a list of items is encoded.
type span struct{ from, to, items int }

// roughSize estimates the size of the encoded elements in bytes. Usually the estimate is too high. Without the
// estimate, the encoder would enlarge its buffer many times, and a context of several megabytes would leave several
// times its size as garbage.
func roughSize(elements []Element) int {
	const perElement = 120
	size := 2
	for _, element := range elements {
		size += perElement + len(element.Binding) + len(element.Group) + len(element.Review) + RoughSize([]Item{element.Item}) + RoughSize(element.Objects)
		for name, list := range element.Snapshots {
			size += len(name) + RoughSize(list)
		}
	}
	return size
}

// RoughSize estimates the size of the encoded items in bytes. Usually the estimate is too high.
func RoughSize(items []Item) int {
	const perList, perItem = 40, 40
	size := perList
	for _, item := range items {
		size += perItem + len(item.Object) + len(item.FilterResult)
	}
	return size
}

func (e *encoder) raw(text string) { e.out = append(e.out, text...) }

func (e *encoder) element(element Element) error {
	e.raw(`{"binding":`)
	e.text(element.Binding)
	if element.Legacy {
		e.legacy(element)
		return nil
	}
	var err error
	switch {
	case element.Review != nil:
		err = e.review(element)
	case element.Group != "":
		e.raw(`,"type":"Group","groupName":`)
		e.text(element.Group)
	case element.Type == TypeEvent:
		e.raw(`,"type":"Event","watchEvent":`)
		e.text(element.WatchEvent)
		err = e.item(",", element.Item)
	case element.Type == TypeSynchronization:
		e.raw(`,"type":"Synchronization","objects":`)
		err = e.items(element.Objects)
	case element.Type != "":
		e.raw(`,"type":`)
		e.text(string(element.Type))
	}
	if err != nil {
		return err
	}
	if element.Snapshots != nil {
		e.raw(`,"snapshots":`)
		err = e.snapshots(element.Snapshots)
	}
	e.raw("}")
	return err
}

// legacy appends the rest of an element in the legacy form. The binding name is already written.
func (e *encoder) legacy(element Element) {
	if element.Type == TypeEvent {
		e.raw(`,"resourceEvent":`)
		e.text(map[string]string{Added: "add", Modified: "update", Deleted: "delete"}[element.WatchEvent])
		e.raw(`,"resourceNamespace":`)
		e.text(element.Named.Namespace)
		e.raw(`,"resourceKind":`)
		e.text(element.Named.Kind)
		e.raw(`,"resourceName":`)
		e.text(element.Named.Name)
	}
	e.raw("}")
}

// review appends the type of an element with a review, and its review request.
func (e *encoder) review(element Element) error {
	if !json.Valid(element.Review) {
		return errors.New("the review is not JSON")
	}
	e.raw(`,"type":`)
	e.text(string(element.Type))
	if element.Type == TypeConversion {
		e.raw(`,"fromVersion":`)
		e.text(element.FromVersion)
		e.raw(`,"toVersion":`)
		e.text(element.ToVersion)
	}
	e.raw(`,"review":`)
	e.out = append(e.out, element.Review...)
	return nil
}

func (e *encoder) snapshots(snapshots map[string][]Item) error {
	before := "{"
	for _, name := range slices.Sorted(maps.Keys(snapshots)) {
		e.raw(before)
		before = ","
		e.text(name)
		e.raw(":")
		if err := e.items(snapshots[name]); err != nil {
			return fmt.Errorf("snapshot %s: %w", name, err)
		}
	}
	if before == "{" {
		e.raw("{")
	}
	e.raw("}")
	return nil
}

func (e *encoder) items(items []Item) error {
	if len(items) == 0 {
		e.raw("[]")
		return nil
	}
	if s, ok := e.written[&items[0]]; ok && s.items == len(items) {
		e.out = append(e.out, e.out[s.from:s.to]...)
		return nil
	}
	from := len(e.out)
	before := "["
	for i, item := range items {
		e.raw(before + "{")
		before = ","
		if err := e.item("", item); err != nil {
			return fmt.Errorf("object %d: %w", i, err)
		}
		e.raw("}")
	}
	e.raw("]")
	e.written[&items[0]] = span{from: from, to: len(e.out), items: len(items)}
	return nil
}

// item appends the keys and values of an item, without braces. If the item is not empty, the output begins with the
// given text.
func (e *encoder) item(before string, item Item) error {
	for _, part := range []struct {
		key  string
		json json.RawMessage
	}{{"object", item.Object}, {"filterResult", item.FilterResult}} {
		if part.json == nil {
			continue
		}
		if !json.Valid(part.json) {
			return fmt.Errorf("its %s is not JSON", part.key)
		}
		e.raw(before + strconv.Quote(part.key) + ":")
		e.out = append(e.out, part.json...)
		before = ","
	}
	return nil
}

// text appends text as a JSON string. Invalid UTF-8 becomes U+FFFD, as in encoding/json.
func (e *encoder) text(text string) {
	quoted, err := json.Marshal(text)
	if err != nil { // encoding a string never fails
		quoted = []byte(`""`)
	}
	e.out = append(e.out, quoted...)
}
