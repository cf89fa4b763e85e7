package helm

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Object identifies one Kubernetes object of a release.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for cluster-scoped objects. In a [Change] and a [DryRevision], it is also empty if the
	// manifest names no namespace.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the kind, the namespace and the name, as in "ConfigMap default/settings".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// document is one object in a manifest, with its YAML.
type document struct {
	node *yaml.RNode
	Object
}

// templateComment matches the comment that Helm writes above each object.
var templateComment = regexp.MustCompile(`(?m)^# Source: (\S+)$`)

// template returns the path of the template from which Helm has rendered the object, or "" if it is unknown.
func (d document) template() string {
	text, err := d.node.String()
	if err != nil {
		return ""
	}
	if found := templateComment.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// mortal reports whether the object has the field spec.ttlSecondsAfterFinished, like a Job that Kubernetes deletes
// some time after it has finished.
func (d document) mortal() bool {
	ttl, err := d.node.Pipe(yaml.Lookup("spec", "ttlSecondsAfterFinished"))
	return err == nil && !yaml.IsMissingOrNull(ttl)
}

// labeller is a Helm post-renderer for one rendering. It adds labels to every object, including the items of lists, and
// collects the objects in the field documents.
type labeller struct {
	labels    map[string]string
	documents []document

	// sum is the text over which the checksum of the manifest is computed. It is the same as in flant/addon-operator,
	// byte for byte: the rendered objects in the format of kyaml, with labels, but without labels on the items of
	// lists.
	sum string
}

// newLabeller returns the post-renderer for r. The post-renderer adds the given labels to every object. If r.Maintained
// is set, it also adds maintenanceLabel.
func newLabeller(all map[string]string, r Release) *labeller {
	labels := maps.Clone(all)
	if r.Maintained {
		labels[maintenanceLabel] = ""
	}
	return &labeller{labels: labels}
}

// Run implements postrender.PostRenderer.
func (l *labeller) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	nodes, err := read(rendered.String())
	if err != nil {
		return nil, err
	}
	l.documents = l.documents[:0]
	for _, n := range nodes {
		if err := l.label(n, document{node: n}); err != nil {
			return nil, err
		}
	}
	if l.sum, err = kio.StringAll(nodes); err != nil {
		return nil, fmt.Errorf("write the labelled objects: %w", err)
	}
	for _, n := range nodes {
		if err := l.add(n, Object{}); err != nil {
			return nil, err
		}
	}
	text, err := kio.StringAll(nodes)
	if err != nil {
		return nil, fmt.Errorf("write the labelled objects: %w", err)
	}
	return bytes.NewBufferString(text), nil
}

// label adds l.labels to the object n. d describes n for errors.
func (l *labeller) label(n *yaml.RNode, d document) error {
	labels := n.GetLabels()
	maps.Copy(labels, l.labels)
	if err := n.SetLabels(labels); err != nil {
		return fmt.Errorf("label %s: %w", d, err)
	}
	return nil
}

// read splits a manifest into objects. Helm must have parsed the manifest before, because Helm rejects YAML anchors
// that contain themselves, which kyaml would follow forever. read returns an error if an object, its metadata or its
// labels have a YAML type for which kyaml would panic.
func read(manifest string) ([]*yaml.RNode, error) {
	nodes, err := kio.FromBytes([]byte(manifest))
	if err != nil {
		return nil, fmt.Errorf("read the objects: %w", err)
	}
	for _, n := range nodes {
		if err := formed(n); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// formed returns an error if n is not a map, or if metadata or metadata.labels in it is not a map.
func formed(n *yaml.RNode) error {
	if n.YNode().Kind != yaml.MappingNode {
		return fmt.Errorf("not a Kubernetes object, because it has no fields: %q", beginning(n))
	}
	metadata := n.Field(yaml.MetadataField)
	if metadata.IsNilOrEmpty() {
		return nil
	}
	for _, part := range []*yaml.MapNode{metadata, metadata.Value.Field(yaml.LabelsField)} {
		if !part.IsNilOrEmpty() && part.Value.YNode().Kind != yaml.MappingNode {
			return fmt.Errorf("template %s: metadata or metadata.labels is not a map: %q", document{node: n}.template(), beginning(n))
		}
	}
	return nil
}

// add adds l.labels to the object n, and appends n to l.documents. If n is a list, add also adds the labels to each
// item of the list, and appends the items instead of the list. An item without a kind gets the apiVersion of its list,
// and the kind of the list without the suffix List.
func (l *labeller) add(n *yaml.RNode, of Object) error {
	d := document{node: n, Object: Object{
		APIVersion: n.GetApiVersion(), Kind: n.GetKind(), Namespace: n.GetNamespace(), Name: n.GetName(),
	}}
	if d.Kind == "" {
		d.APIVersion, d.Kind = of.APIVersion, of.Kind
	}
	if d.APIVersion == "" || d.Kind == "" {
		return fmt.Errorf("template %s: not a Kubernetes object, because it has no apiVersion or no kind: %q", d.template(), beginning(n))
	}

	if err := l.label(n, d); err != nil {
		return err
	}
	items := n.Field("items")
	if items == nil || items.Value.YNode().Kind != yaml.SequenceNode {
		if d.Name == "" {
			return fmt.Errorf("template %s: a %s has no metadata.name, which is required for objects of a release", d.template(), d.Kind)
		}
		l.documents = append(l.documents, d)
		return nil
	}
	elements, err := items.Value.Elements()
	if err != nil {
		return fmt.Errorf("read the items of %s: %w", d, err)
	}
	for _, e := range elements {
		if err := formed(e); err != nil {
			return err
		}
		if err := l.add(e, Object{APIVersion: d.APIVersion, Kind: strings.TrimSuffix(d.Kind, "List")}); err != nil {
			return err
		}
	}
	return nil
}

// beginning returns the first 40 bytes of an object's YAML, for error messages.
func beginning(n *yaml.RNode) string {
	const enough = 40
	text, err := n.String()
	if err != nil {
		return ""
	}
	text = strings.TrimSpace(templateComment.ReplaceAllString(text, ""))
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "…"
	}
	return text
}

// lasting returns the objects in documents that must exist as long as the release is deployed. If a namespaced object
// names no namespace, its Namespace in the result is the namespace of the client.
func (c *Client) lasting(ctx context.Context, documents []document) ([]Object, error) {
	objects := make([]Object, 0, len(documents))
	for _, d := range documents {
		if d.mortal() {
			continue
		}
		mapping, err := c.cluster.mapping(ctx, d.APIVersion, d.Kind)
		if err != nil {
			return nil, fmt.Errorf("template %s: %s: %w", d.template(), d, err)
		}
		switch {
		case mapping.Scope.Name() == meta.RESTScopeNameRoot:
			d.Namespace = ""
		case d.Namespace == "":
			d.Namespace = c.namespace
		}
		objects = append(objects, d.Object)
	}
	return objects, nil
}
