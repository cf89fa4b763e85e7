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

// Object is what is known of one object in one view. It is shared by all who see it and never changed.
type Object struct {
	Namespace       string
	Name            string
	UID             string
	ResourceVersion string

	// Manager is the field manager that changed the object last, empty if the object names none. Managers that changed it in
	// the same second are joined by "or".
	Manager string

	// Checksum tells whether what the view shows of the object has changed: it is of the filter's result, or, without a
	// filter, of the whole object.
	Checksum string

	// Raw is the whole object as the server wrote it, JSON; nil where no owner of the view keeps full objects.
	Raw json.RawMessage

	// FilterResult is what the view's filter made of the object, JSON; nil without a filter.
	FilterResult json.RawMessage

	// Unfiltered is true if the filter failed on the object and it was not known before. It has no checksum then, no
	// snapshot shows it, and all that can be said is that it exists.
	Unfiltered bool
}

// objectKey is where an object is in a view.
type objectKey struct{ namespace, name string }

func (o *Object) key() objectKey { return objectKey{o.Namespace, o.Name} }

// compareObjects orders objects by namespace, then name.
func compareObjects(a, b *Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// identity is the part of an object that says which it is.
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

// manager returns the field manager of the newest change, with its subresource as in "kubelet (status)". The times of changes
// are whole seconds: managers of the same second are joined by "or".
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

// document is an object on its way in: read from the server, not yet seen through any view.
type document struct {
	raw json.RawMessage
	id  identity
	in  *jq.Input // of all filters; nil until the first
}

// readDocument takes in an object as the server wrote it in a watch or a list. A list leaves the kind away that its items
// share; it is added the way the server writes it in a watch, so that one object is one text.
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

// object returns what every view sees of d.
func (d *document) object() *Object {
	m := d.id.Metadata
	return &Object{
		Namespace: unique.Make(m.Namespace).Value(), Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Manager: unique.Make(d.id.manager()).Value(),
	}
}

func (d *document) key() objectKey { return objectKey{d.id.Metadata.Namespace, d.id.Metadata.Name} }

// through returns what filter shows of d, with the whole of it if keep is true. If the filter fails, the object comes
// without result and checksum.
func (d *document) through(ctx context.Context, filter *jq.Filter, keep bool) (*Object, error) {
	object := d.object()
	if keep {
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
