package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unique"

	"addon-operator/internal/jq"
)

// Object is an object in a view. Several callers may get the same Object, so they must not change it.
type Object struct {
	Namespace       string
	Name            string
	UID             string
	ResourceVersion string

	// Manager is the field manager that has changed the object last. If several field managers have changed it in the
	// same second, Manager has all their names, joined by " or ". It is empty if the object names no field manager.
	Manager string

	// Checksum is the checksum of the content that the view has of the object: the filter result or, without a filter,
	// the whole object.
	Checksum string

	// Raw is the whole object as JSON, as the API server sends it in a watch. It is nil if no owner of the view keeps
	// full objects.
	Raw json.RawMessage

	// FilterResult is the result of the filter for the object, as JSON. It is nil if the view has no filter. It can
	// also be nil if the filter has failed.
	FilterResult json.RawMessage

	// Unfiltered is true if the filter has failed and the view did not contain the object before. Such an object has
	// neither a filter result nor a checksum, and is not in snapshots.
	Unfiltered bool
}

// objectKey identifies an object in a view.
type objectKey struct{ namespace, name string }

func (o *Object) key() objectKey { return objectKey{o.Namespace, o.Name} }

// compareObjects compares a and b by namespace, and then by name.
func compareObjects(a, b *Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// identity contains those fields of an object that identify it and its last change.
type identity struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
		ManagedFields   []struct {
			Manager     string `json:"manager"`
			Subresource string `json:"subresource"`
			Time        string `json:"time"` // in the format of RFC 3339, in UTC and in whole seconds
		} `json:"managedFields"`
	} `json:"metadata"`
}

// manager returns the name of the field manager of the newest change, with the subresource, as in "kubelet (status)".
// The times of changes have a resolution of one second. So several field managers can have the newest time; then
// manager returns their names, joined by " or ".
func (id *identity) manager() string {
	newest := ""
	var names []string
	for _, f := range id.Metadata.ManagedFields {
		if f.Time < newest {
			continue
		}
		if f.Time > newest {
			newest, names = f.Time, nil
		}
		name := f.Manager
		if f.Subresource != "" {
			name += " (" + f.Subresource + ")"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// document is an object as it was read from the API server, before a filter was applied.
type document struct {
	raw json.RawMessage
	id  identity
	in  *jq.Input // the input of all filters; nil before the first filter is applied
}

// readDocument parses an object that was read by a watch or a list of source. In a list, the API server omits kind and
// apiVersion from objects of built-in kinds. If they are missing, readDocument adds both, in the same way as the API
// server writes them in a watch. So an object has the same text in a list and in a watch.
func readDocument(raw json.RawMessage, source Source) (*document, error) {
	d := &document{raw: raw}
	if err := json.Unmarshal(raw, &d.id); err != nil {
		return nil, fmt.Errorf("read an object of %s: %w", source.Resource, err)
	}
	if d.id.Kind == "" {
		var text bytes.Buffer
		text.Grow(len(raw) + len(source.Kind) + len(source.Group) + len(source.Version) + len(`{"kind":"","apiVersion":"/",`))
		fmt.Fprintf(&text, `{"kind":%q,"apiVersion":%q,`, source.Kind, source.APIVersion())
		text.Write(bytes.TrimPrefix(raw, []byte("{")))
		d.raw = text.Bytes()
	}
	return d, nil
}

// object returns an Object with those fields of d that do not depend on a filter.
func (d *document) object() *Object {
	m := d.id.Metadata
	return &Object{
		Namespace: unique.Make(m.Namespace).Value(), Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Manager: unique.Make(d.id.manager()).Value(),
	}
}

func (d *document) key() objectKey { return objectKey{d.id.Metadata.Namespace, d.id.Metadata.Name} }

// filtered applies filter to d, and returns an Object with the result of the filter. If full is true, the field Raw is
// set as well. If the filter fails, filtered returns the error, and an Object without a result and a checksum.
func (d *document) filtered(ctx context.Context, filter *jq.Filter, full bool) (*Object, error) {
	object := d.object()
	if full {
		object.Raw = d.raw
	}
	if filter == nil {
		object.Checksum = checksum(d.raw)
		return object, nil
	}
	if d.in == nil {
		d.in = jq.NewInput(d.raw)
	}
	result, err := filter.Apply(ctx, d.in)
	if err != nil {
		return object, err
	}
	object.FilterResult, object.Checksum = result, checksum(result)
	return object, nil
}

// checksum returns the first 128 bits of the SHA-256 of text, in hexadecimal digits.
func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
