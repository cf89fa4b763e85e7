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

// Object is one object as one view shows it. Callers share it and must not change it.
type Object struct {
	Namespace       string
	Name            string
	UID             string
	ResourceVersion string

	// Manager is the field manager of the last change; empty if the object names none. If several
	// managers changed the object in the same second, their names are joined by " or ".
	Manager string

	// Checksum changes when the content that the view shows changes: it is the checksum of the
	// filter result or, without a filter, of the whole object.
	Checksum string

	// Raw is the whole object as JSON, unchanged from the server; nil if no owner of the view keeps
	// full objects.
	Raw json.RawMessage

	// FilterResult is the filter's result for the object, as JSON; nil without a filter.
	FilterResult json.RawMessage

	// Unfiltered is true if the filter failed for an object that the view did not contain before.
	// The object has no checksum and is not part of snapshots.
	Unfiltered bool
}

// objectKey identifies an object in a view.
type objectKey struct{ namespace, name string }

func (o *Object) key() objectKey { return objectKey{o.Namespace, o.Name} }

// compareObjects orders objects by namespace, then name.
func compareObjects(a, b *Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// identity is the part of an object that identifies it and its last change.
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
			Time        string `json:"time"` // RFC 3339 in UTC, whole seconds
		} `json:"managedFields"`
	} `json:"metadata"`
}

// manager returns the field manager of the newest change, with its subresource, as in "kubelet
// (status)". The times of changes have a resolution of one second. So several managers can have the
// newest time; their names are joined by " or ".
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

// document is an object read from the server, before any filter was applied.
type document struct {
	raw json.RawMessage
	id  identity
	in  *jq.Input // shared by all filters; nil until the first is applied
}

// readDocument parses an object of a watch or a list. The server omits kind and apiVersion from the
// items of a list. readDocument adds both as the server writes them in a watch, so that an object
// has the same text in a list and in a watch.
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

// object returns the part of d that does not depend on a filter.
func (d *document) object() *Object {
	m := d.id.Metadata
	return &Object{
		Namespace: unique.Make(m.Namespace).Value(), Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Manager: unique.Make(d.id.manager()).Value(),
	}
}

func (d *document) key() objectKey { return objectKey{d.id.Metadata.Namespace, d.id.Metadata.Name} }

// filtered applies filter to d and returns the object with the result. The object includes its JSON
// text if full is true. If the filter fails, the object has no result and no checksum.
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

// checksum returns 128 bits of the SHA-256 of text, in hex.
func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
