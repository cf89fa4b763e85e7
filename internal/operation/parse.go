package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"addon-operator/internal/jq"
	"addon-operator/internal/tree"
)

// The keys of the document that describes an operation.
const (
	keyOperation           = "operation"
	keyNamespace           = "namespace"
	keySubresource         = "subresource"
	keyAPIVersion          = "apiVersion"
	keyKind                = "kind"
	keyName                = "name"
	keyObject              = "object"
	keyJSONPatch           = "jsonPatch"
	keyJQFilter            = "jqFilter"
	keyMergePatch          = "mergePatch"
	keyIgnoreMissingObject = "ignoreMissingObject"
	keyIgnoreHookError     = "ignoreHookError"
)

// keys are all keys that a document may have.
var keys = []string{
	keyOperation, keyAPIVersion, keyKind, keyNamespace, keyName, keySubresource, keyObject, keyMergePatch, keyJSONPatch,
	keyJQFilter, keyIgnoreMissingObject, keyIgnoreHookError,
}

// mostProblems is the maximum number of problems in an error.
const mostProblems = 20

// Parse parses the file that a hook writes to $KUBERNETES_PATCH_PATH: a sequence of JSON or YAML
// documents, each one operation. An empty file has no operations. If a document is invalid, Parse
// returns no operations, and the error lists the problems by document number and field.
func Parse(text []byte) ([]Operation, error) {
	documents, err := tree.StrictDocuments(text) // as shell-operator reads this file
	if err != nil {
		return nil, err
	}
	var wrong []error
	operations := make([]Operation, len(documents))
	for i, value := range documents {
		d := &document{number: i + 1}
		operations[i] = d.read(value)
		wrong = append(wrong, d.wrong...)
	}
	if more := len(wrong) - mostProblems; more > 0 {
		wrong = append(wrong[:mostProblems], fmt.Errorf("and %d more", more))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return operations, nil
}

// document is the state of parsing one document, or a part of it, such as the object to create.
type document struct {
	number int
	fields map[string]any
	wrong  []error
}

// fail records a problem with a field; an empty field means the whole document.
func (d *document) fail(field, format string, args ...any) {
	if field != "" {
		field += ": "
	}
	d.wrong = append(d.wrong, fmt.Errorf("document %d: %s%s", d.number, field, fmt.Sprintf(format, args...)))
}

func (d *document) read(value any) Operation {
	var isMap bool
	if d.fields, isMap = value.(map[string]any); !isMap {
		d.fail("", "must be a map of one operation, not %s", tree.Kind(value))
		return Operation{}
	}
	d.unknown()
	o := Operation{
		Type:                d.operationType(),
		APIVersion:          d.text(keyAPIVersion),
		Kind:                d.text(keyKind),
		Namespace:           d.segment(keyNamespace, d.text(keyNamespace)),
		Name:                d.segment(keyName, d.text(keyName)),
		Subresource:         d.segment(keySubresource, strings.TrimPrefix(d.text(keySubresource), "/")),
		IgnoreMissingObject: d.flag(keyIgnoreMissingObject),
	}
	// The field ignoreHookError is validated, but has no effect. It requests that a patch of the
	// status is executed even if the hook has failed, but the operator does not read the files of a
	// failed hook.
	d.flag(keyIgnoreHookError)
	switch {
	case o.Type.creates():
		d.readObject(&o)
	case o.Type != "":
		d.need(keyKind, o.Kind)
		d.need(keyName, o.Name)
		d.readPatch(&o)
	}
	return o
}

// unknown reports a problem for each unknown key.
func (d *document) unknown() {
	for _, key := range sortedKeys(d.fields) {
		if slices.Contains(keys, key) {
			continue
		}
		hint := "known are " + strings.Join(keys, ", ")
		if i := slices.IndexFunc(keys, func(known string) bool { return strings.EqualFold(known, key) }); i >= 0 {
			hint = "write " + keys[i]
		}
		d.fail(tree.Excerpt(key), "is no known field, %s", hint)
	}
}

func (d *document) operationType() Type {
	value, found := d.fields[keyOperation]
	if !found {
		d.fail(keyOperation, "is required, one of %s", listed(allTypes))
		return ""
	}
	text := Type(d.text(keyOperation))
	if _, isText := value.(string); isText && !slices.Contains(allTypes, text) {
		d.fail(keyOperation, "is %q, must be one of %s", tree.Excerpt(string(text)), listed(allTypes))
		return ""
	}
	return text
}

// readPatch reads the fields that only a patch has. A deletion has none of them.
func (d *document) readPatch(o *Operation) {
	switch o.Type {
	case MergePatch:
		o.MergePatch = d.tree(keyMergePatch, func(value any) { d.isMap(keyMergePatch, value) })
	case JSONPatch:
		o.JSONPatch = d.tree(keyJSONPatch, d.checkJSONPatch)
	case JQPatch:
		o.JQFilter = d.text(keyJQFilter)
		d.need(keyJQFilter, o.JQFilter)
		_, err := jq.Compile(o.JQFilter)
		if syntax := (*jq.SyntaxError)(nil); errors.As(err, &syntax) {
			d.fail(keyJQFilter, "%s", syntax.Public)
		} else if err != nil {
			d.fail(keyJQFilter, "%v", err)
		}
	default:
		o.Subresource = "" // only patches have a subresource
	}
}

// readObject reads the object to create. Kind, namespace and name are read from the fields of the
// object.
func (d *document) readObject(o *Operation) {
	*o = Operation{Type: o.Type}
	o.Object = d.tree(keyObject, func(value any) {
		object, ok := d.isMap(keyObject, value)
		if !ok {
			return
		}
		in := &document{number: d.number, fields: object}
		o.APIVersion, o.Kind = in.text(keyAPIVersion), in.text(keyKind)
		in.need(keyKind, o.Kind)
		metadata, found := object["metadata"].(map[string]any)
		if !found {
			in.fail("metadata", "must be a map with a name, not %s", tree.Kind(object["metadata"]))
		}
		inner := &document{number: d.number, fields: metadata}
		o.Name, o.Namespace = inner.segment(keyName, inner.text(keyName)), inner.segment(keyNamespace, inner.text(keyNamespace))
		if found && o.Name == "" && inner.text("generateName") == "" && len(inner.wrong) == 0 {
			inner.fail(keyName, "is required")
		}
		d.adopt(keyObject+".", in)
		d.adopt(keyObject+".metadata.", inner)
	})
}

// adopt adds the problems of part, which is a part of the document, to d. Each problem names the
// path of the part.
func (d *document) adopt(path string, part *document) {
	prefix := fmt.Sprintf("document %d: ", d.number)
	for _, err := range part.wrong {
		d.wrong = append(d.wrong, errors.New(prefix+path+strings.TrimPrefix(err.Error(), prefix)))
	}
}

// tree returns the value of a required field as JSON. If the value is a string, it must contain
// JSON or YAML, which tree parses. The function check, which tree calls with the parsed value, must
// report the problems of the value to d.
func (d *document) tree(field string, check func(value any)) json.RawMessage {
	value, found := d.fields[field]
	if !found {
		d.fail(field, "is required")
		return nil
	}
	if text, isText := value.(string); isText {
		var err error
		if value, err = readText(text); err != nil {
			d.fail(field, "%v", err)
			return nil
		}
	}
	check(value)
	encoded, err := json.Marshal(value)
	if err != nil { // a tree of JSON values can always be encoded
		d.fail(field, "%v", err)
	}
	return encoded
}

func (d *document) isMap(field string, value any) (map[string]any, bool) {
	entries, ok := value.(map[string]any)
	if !ok {
		d.fail(field, "must be a map, or a string that contains a map, not %s", tree.Kind(value))
	}
	return entries, ok
}

// readText parses a string that contains one JSON value or YAML document. Words such as yes and on
// are booleans in it, as in the manifests that kubectl reads, and as in shell-operator.
func readText(text string) (any, error) {
	documents, err := tree.Documents([]byte(text))
	switch {
	case err != nil:
		return nil, err
	case len(documents) == 0:
		return nil, errors.New("contains nothing")
	case len(documents) > 1:
		return nil, fmt.Errorf("contains %d documents, must contain one", len(documents))
	}
	return documents[0], nil
}
