package operation

import (
	"encoding/base64"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// inServerForm returns the fields of a requested object in the form in which the API server stores
// them. It removes fields that the server sets or ignores, and converts the stringData of a Secret
// to data, as the server does.
func inServerForm(asked *unstructured.Unstructured) map[string]any {
	fields := asked.DeepCopy().Object
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		for _, found := range []string{"generateName", "creationTimestamp", "managedFields", "resourceVersion", "uid", "generation", "selfLink"} {
			delete(metadata, found)
		}
	}
	delete(fields, "status") // for most kinds, the server ignores the status of a new object
	text, isMap := fields["stringData"].(map[string]any)
	if !isMap || asked.GetKind() != "Secret" {
		return fields
	}
	delete(fields, "stringData")
	data, isMap := fields["data"].(map[string]any)
	if !isMap {
		data = map[string]any{}
		fields["data"] = data
	}
	for key, value := range text {
		if s, ok := value.(string); ok {
			data[key] = base64.StdEncoding.EncodeToString([]byte(s))
		}
	}
	return fields
}

// contains reports whether a stored value, the argument live, contains all fields and items of a
// requested value, the argument asked. A map in live may have additional fields. A list in live must
// contain the requested items in their order, and may have additional items, because the API server
// adds items to some lists. For example, it adds tolerations and volumes to a new Pod. Null in asked
// matches every value, and a zero value in asked matches a missing field. Quantities, such as "1000m"
// and 1, are compared by their amounts.
func contains(live, asked any) bool {
	switch asked := asked.(type) {
	case nil:
		return true
	case map[string]any:
		return containsFields(live, asked)
	case []any:
		return containsItems(live, asked)
	default:
		return reflect.DeepEqual(live, asked) || isEmpty(asked) && live == nil || sameQuantity(live, asked)
	}
}

func containsFields(live any, asked map[string]any) bool {
	fields, ok := live.(map[string]any)
	if !ok {
		return live == nil && len(asked) == 0
	}
	for key, value := range asked {
		if !contains(fields[key], value) {
			return false
		}
	}
	return true
}

func containsItems(live any, asked []any) bool {
	items, ok := live.([]any)
	if !ok {
		return live == nil && len(asked) == 0
	}
	for _, item := range asked {
		i := slices.IndexFunc(items, func(of any) bool { return contains(of, item) })
		if i < 0 {
			return false
		}
		items = items[i+1:]
	}
	return true
}

// sameQuantity reports whether two values are equal quantities, such as "1000m" and 1.
func sameQuantity(a, b any) bool {
	x, okX := quantity(a)
	y, okY := quantity(b)
	return okX && okY && x.Cmp(y) == 0
}

func quantity(value any) (resource.Quantity, bool) {
	switch v := value.(type) {
	case string:
		q, err := resource.ParseQuantity(v)
		return q, err == nil
	case int64:
		return *resource.NewQuantity(v, resource.DecimalSI), true
	}
	return resource.Quantity{}, false
}
