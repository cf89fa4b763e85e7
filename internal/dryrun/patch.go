package dryrun

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// patched returns the result of applying patch to o. contentType is the content type of a merge patch or a strategic
// merge patch; other types are an error.
func patched(o map[string]any, patch []byte, contentType string) (map[string]any, error) {
	before, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch types.PatchType(contentType) {
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, patch)
	case types.StrategicMergePatchType:
		typed, unknown := scheme.Scheme.New((&unstructured.Unstructured{Object: o}).GroupVersionKind())
		if unknown != nil {
			return nil, unknown
		}
		after, err = strategicpatch.StrategicMergePatch(before, patch, typed)
	default:
		return nil, fmt.Errorf("content type %s is not supported", contentType)
	}
	if err != nil {
		return nil, err
	}
	return decoded(after), nil
}

// byServer are the fields of metadata that the API server sets. [Content] leaves them out.
var byServer = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}

// Content returns a copy of o without status, and without the fields of metadata that the API server sets, such as
// resourceVersion. It does not change o. If o is nil, Content returns nil.
func Content(o map[string]any) map[string]any {
	if o == nil {
		return nil
	}
	content := make(map[string]any, len(o))
	for key, value := range o {
		if key != "status" {
			content[key] = value
		}
	}
	if metadata, ok := o["metadata"].(map[string]any); ok {
		left := make(map[string]any, len(metadata))
		maps.Copy(left, metadata)
		for _, key := range byServer {
			delete(left, key)
		}
		content["metadata"] = left
	}
	return content
}

// same reports whether a and b have equal [Content], or are both nil.
func same(a, b map[string]any) bool {
	return (a == nil) == (b == nil) && reflect.DeepEqual(Content(a), Content(b))
}
