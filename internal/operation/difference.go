package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
)

const (
	// maxConditions is the maximum number of conditions in a difference.
	maxConditions = 64

	// maxDifference is the maximum size of the JSON of a difference.
	maxDifference = 16 << 10
)

// A difference describes what a patch changes in a value: in an object, a field or an item of a list. It contains
// checksums instead of values, because it is stored, and the values can be secrets. The conditions of a difference
// are true for each value that contains all changes, whatever other writers change in other fields and items.
type difference struct {
	// Value is the checksum of a value that is no map and no list. Quantity is the checksum of its amount, if the value
	// can be a quantity: the API server stores "1000m" as "1".
	Value    string `json:"value,omitempty"`
	Quantity string `json:"quantity,omitempty"`
	// Absent is true if a field must be missing or have the zero value.
	Absent bool `json:"absent,omitempty"`
	// Fields are conditions for the fields of a map, or for the items of a list by their names.
	Fields map[string]*difference `json:"fields,omitempty"`
	// Added are conditions for items that a list must contain in this order. Removed are the checksums of items that a
	// list must not contain.
	Added   []*difference `json:"added,omitempty"`
	Removed []string      `json:"removed,omitempty"`
}

// differenceOf returns the difference between two objects. It returns nil if the objects are equal, if the earlier
// object also meets the conditions, or if the difference is larger than maxDifference. If the objects differ in many
// fields, the result has conditions for only some of them.
func differenceOf(before, after map[string]any) *difference {
	c := &comparison{left: maxConditions}
	d := c.changed(before, after)
	if d == nil || d.isIn(before) {
		return nil
	}
	if text, err := json.Marshal(d); err != nil || len(text) > maxDifference {
		return nil
	}
	return d
}

// A comparison makes the conditions of one difference.
type comparison struct {
	left int // the number of conditions that the difference may still get
}

// changed returns the conditions for the parts in which a value differs from an earlier one; nil if there is none.
func (c *comparison) changed(before, after any) *difference {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	if isEmpty(after) {
		if isEmpty(before) || !c.reserve() {
			return nil
		}
		return &difference{Absent: true}
	}
	olds, isMap := fieldsOf(before)
	news, isMapStill := fieldsOf(after)
	if isMap && isMapStill {
		return c.changedFields(olds, news)
	}
	oldItems, isList := before.([]any)
	newItems, isListStill := after.([]any)
	if isList && isListStill {
		return c.changedItems(oldItems, newItems)
	}
	d := c.all(after)
	if d != nil && sameQuantity(before, after) {
		d.Quantity = "" // the amount is no sign of the change, as in a change from "1.1" to "1.10"
	}
	return d
}

func (c *comparison) changedFields(before, after map[string]any) *difference {
	fields := map[string]*difference{}
	for _, key := range sortedKeys(after) {
		if d := c.changed(before[key], after[key]); d != nil {
			fields[key] = d
		}
	}
	for _, key := range sortedKeys(before) {
		if _, still := after[key]; !still {
			if d := c.changed(before[key], nil); d != nil {
				fields[key] = d
			}
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return &difference{Fields: fields}
}

// changedItems returns the conditions for lists whose items have no names. It ignores an added item if one of the
// earlier items meets the same conditions.
func (c *comparison) changedItems(before, after []any) *difference {
	d := &difference{}
	for _, item := range after {
		if slices.ContainsFunc(before, func(old any) bool { return reflect.DeepEqual(old, item) }) {
			continue
		}
		added := c.all(item)
		if added != nil && !slices.ContainsFunc(before, added.isIn) {
			d.Added = append(d.Added, added)
		}
	}
	for _, item := range before {
		if !slices.ContainsFunc(after, func(kept any) bool { return reflect.DeepEqual(kept, item) }) && c.reserve() {
			d.Removed = append(d.Removed, checksum(item))
		}
	}
	if len(d.Added)+len(d.Removed) == 0 {
		return nil
	}
	return d
}

// all returns the conditions for all parts of a new value, except zero values: the API server can omit these.
func (c *comparison) all(value any) *difference {
	if isEmpty(value) {
		return nil
	}
	if fields, ok := fieldsOf(value); ok {
		return c.changedFields(nil, fields)
	}
	if items, ok := value.([]any); ok {
		return c.changedItems(nil, items)
	}
	if !c.reserve() {
		return nil
	}
	return &difference{Value: checksum(value), Quantity: amount(value)}
}

// reserve counts one more condition, and reports whether the difference may get it.
func (c *comparison) reserve() bool {
	if c.left == 0 {
		return false
	}
	c.left--
	return true
}

// isIn reports whether a value meets all conditions of d.
func (d *difference) isIn(value any) bool {
	switch {
	case d.Absent:
		return isEmpty(value)
	case d.Value != "":
		return checksum(value) == d.Value || d.Quantity != "" && amount(value) == d.Quantity
	case d.Fields != nil:
		fields, ok := fieldsOf(value)
		for key, field := range d.Fields {
			if !ok && !field.Absent || !field.isIn(fields[key]) {
				return false
			}
		}
		return true
	}
	items, ok := value.([]any)
	if !ok && value != nil {
		return false
	}
	for _, item := range items {
		if slices.Contains(d.Removed, checksum(item)) {
			return false
		}
	}
	for _, added := range d.Added {
		i := slices.IndexFunc(items, added.isIn)
		if i < 0 {
			return false
		}
		items = items[i+1:]
	}
	return true
}

// fieldsOf returns the fields of a map, or the items of a list by their names. It returns false for all other values.
// It also returns false for an empty list, and for a list in which an item has no name or two items have the same name.
func fieldsOf(value any) (map[string]any, bool) {
	if fields, ok := value.(map[string]any); ok {
		return fields, true
	}
	items, ok := value.([]any)
	if !ok || len(items) == 0 {
		return nil, false
	}
	named := make(map[string]any, len(items))
	for _, item := range items {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		if _, known := named[name]; known || name == "" {
			return nil, false
		}
		named[name] = item
	}
	return named, true
}

// isEmpty reports whether value is a zero value, or a map or list without elements. The API server may omit such a
// value when it stores an object.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	default:
		return value == nil || reflect.ValueOf(value).IsZero()
	}
}

// checksum returns a checksum of the JSON of value.
func checksum(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// amount returns a checksum of the amount of a quantity, or "" if value is no quantity.
func amount(value any) string {
	q, ok := quantity(value)
	if !ok {
		return ""
	}
	return checksum("quantity " + strconv.FormatFloat(q.AsApproximateFloat64(), 'g', -1, 64))
}
