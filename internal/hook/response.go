package hook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
)

// ErrNoResponse means that a hook has written no response to a review request.
var ErrNoResponse = errors.New("the hook wrote no response")

// Verdict is the response of a hook to an admission request.
type Verdict struct {
	Allowed bool
	// Message is the reason of the decision. The API server returns it to the client if the request is denied.
	Message string
	// Warnings are returned to the client, whether the request is allowed or denied.
	Warnings []string
	// Patch is a JSON patch of the object, or nil if there is none. Its syntax is valid.
	Patch json.RawMessage
}

// ParseVerdict parses the response that a hook has written to an admission request. The response must be one JSON
// object with the fields allowed, message, warnings and, from a kubernetesMutating hook, patch. patch is a JSON patch,
// either as a list of operations or as a string with the list in base64. Missing fields are false or empty. If text is
// empty, the error is [ErrNoResponse].
func ParseVerdict(text []byte, mutating bool) (Verdict, error) {
	var written struct {
		Allowed  bool            `json:"allowed"`
		Message  string          `json:"message"`
		Warnings []string        `json:"warnings"`
		Patch    json.RawMessage `json:"patch"`
	}
	if err := readResponse(text, &written); err != nil {
		return Verdict{}, err
	}
	v := Verdict{Allowed: written.Allowed, Message: written.Message, Warnings: written.Warnings}
	patch, err := plainPatch(written.Patch)
	if err != nil {
		return Verdict{}, fmt.Errorf("patch: %w", err)
	}
	if patch != nil && !mutating {
		return Verdict{}, errors.New("patch: a kubernetesValidating hook cannot change the object; omit the patch, or use kubernetesMutating")
	}
	v.Patch = patch
	return v, nil
}

// readResponse decodes the content of a response file, which must be one JSON object.
func readResponse(text []byte, into any) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return ErrNoResponse
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("it is not the expected JSON object: %w; it begins with %s", err, redact.Beginning(text))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the JSON object; write only one object")
	}
	return nil
}

// plainPatch returns the JSON patch that a hook has written. If the hook has encoded it in base64, plainPatch decodes
// it. If the patch is absent or empty, plainPatch returns nil. It returns an error if the syntax of the patch is
// invalid.
func plainPatch(written json.RawMessage) (json.RawMessage, error) {
	patch := []byte(written)
	if bytes.HasPrefix(patch, []byte(`"`)) {
		var packed string
		if err := json.Unmarshal(patch, &packed); err != nil {
			return nil, err
		}
		var err error
		if patch, err = base64.StdEncoding.DecodeString(strings.TrimSpace(packed)); err != nil {
			return nil, fmt.Errorf("it is neither a list of operations nor base64 of one: %w", err)
		}
	}
	if len(bytes.TrimSpace(patch)) == 0 {
		return nil, nil
	}
	var operations []patchOperation
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, fmt.Errorf("it is not a list of operations: %w", err)
	}
	for i, o := range operations {
		if err := o.check(); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	if len(operations) == 0 {
		return nil, nil
	}
	return patch, nil
}

// patchOperation is one operation of a JSON patch (RFC 6902).
type patchOperation struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
}

func (o patchOperation) check() error {
	all := []string{"add", "remove", "replace", "move", "copy", "test"}
	if !slices.Contains(all, o.Op) {
		return fmt.Errorf("op is %q, must be one of %s", tree.Excerpt(o.Op), strings.Join(all, ", "))
	}
	if err := checkPointer("path", o.Path); err != nil {
		return err
	}
	switch o.Op {
	case "add", "replace", "test":
		if o.Value == nil {
			return fmt.Errorf("%s needs a value", o.Op)
		}
	case "move", "copy":
		return checkPointer("from", o.From)
	}
	return nil
}

func checkPointer(name string, pointer *string) error {
	switch {
	case pointer == nil:
		return fmt.Errorf("%s is missing", name)
	case *pointer != "" && !strings.HasPrefix(*pointer, "/"):
		return fmt.Errorf("%s is %q, must begin with /", name, tree.Excerpt(*pointer))
	default:
		return nil
	}
}

// Converted is the response of a hook to a conversion request.
type Converted struct {
	// Objects are the converted objects, in the order of the request.
	Objects []json.RawMessage
	// Failed is the reason why the conversion has failed. It is empty if the conversion has succeeded.
	Failed string
}

// ParseConverted parses the response that a hook has written to a conversion request. The argument asked contains the
// objects of the request, and version is the GROUP/VERSION to convert them to. The response must be one JSON object
// with convertedObjects or failedMessage. Each converted object must have the requested version, and the kind,
// namespace, name and UID of its original, because the API server requires this. If text is empty, the error is
// [ErrNoResponse].
func ParseConverted(text []byte, asked []json.RawMessage, version string) (Converted, error) {
	var written struct {
		Objects []json.RawMessage `json:"convertedObjects"`
		Failed  string            `json:"failedMessage"`
	}
	if err := readResponse(text, &written); err != nil {
		return Converted{}, err
	}
	if written.Failed != "" {
		return Converted{Failed: written.Failed}, nil
	}
	if len(written.Objects) != len(asked) {
		return Converted{}, fmt.Errorf("convertedObjects: there are %d objects, and %d in the request; write all of them, or failedMessage",
			len(written.Objects), len(asked))
	}
	for i, object := range written.Objects {
		before, err := readNamed(asked[i])
		if err != nil {
			return Converted{}, fmt.Errorf("object of the request: %w", err)
		}
		after, err := readNamed(object)
		if err != nil {
			return Converted{}, fmt.Errorf("convertedObjects[%d]: %w", i, err)
		}
		if err := after.check(before, version); err != nil {
			return Converted{}, fmt.Errorf("convertedObjects[%d]: %w", i, err)
		}
	}
	return Converted{Objects: written.Objects}, nil
}

// named contains the API version of an object, and the fields that identify it.
type named struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"metadata"`
}

func readNamed(object json.RawMessage) (n named, err error) {
	if err := json.Unmarshal(object, &n); err != nil {
		return n, fmt.Errorf("it is no object: %w", err)
	}
	return n, nil
}

// check compares the converted object n with the original object. check returns an error if the apiVersion of n is not
// version, or if another field differs.
func (n named) check(before named, version string) error {
	for _, part := range []struct{ name, is, want string }{
		{"apiVersion", n.APIVersion, version},
		{"kind", n.Kind, before.Kind},
		{"metadata.namespace", n.Metadata.Namespace, before.Metadata.Namespace},
		{"metadata.name", n.Metadata.Name, before.Metadata.Name},
		{"metadata.uid", n.Metadata.UID, before.Metadata.UID},
	} {
		if part.is != part.want {
			return fmt.Errorf("%s is %q, must be %q", part.name, tree.Excerpt(part.is), tree.Excerpt(part.want))
		}
	}
	return nil
}
