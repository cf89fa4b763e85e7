package crashtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// fields has the leaves of an object, or of the values of a module, by path. An empty map or list
// is a leaf.
type fields map[string]string

// add adds the leaves of value, which is at path.
func (f fields) add(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			f.add(join(path, key), child)
		}
		if len(v) == 0 {
			f[path] = "{}"
		}
	case []any:
		for i, child := range v {
			f.add(fmt.Sprintf("%s[%d]", path, i), child)
		}
		if len(v) == 0 {
			f[path] = "[]"
		}
	case string:
		f[path] = v
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = fmt.Append(nil, v)
		}
		f[path] = string(text)
	}
}

// join returns the path of a key below path.
func join(path, key string) string {
	if strings.ContainsAny(key, "./[] ") {
		return path + fmt.Sprintf("[%q]", key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// setByServer are the fields of metadata that are not compared: fields that the API server sets, names
// of the object, and its owners.
var setByServer = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink",
	"name", "namespace", "generateName", "ownerReferences",
}

// fieldsOf returns those fields of an object that hooks and charts determine. The argument sections
// must be true for the operator's ConfigMap: the texts in its data are parsed as YAML, and their
// fields are returned.
func fieldsOf(o *unstructured.Unstructured, sections bool) fields {
	content := o.DeepCopy().Object
	delete(content, "apiVersion")
	delete(content, "kind")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		for _, name := range setByServer {
			delete(metadata, name)
		}
	}
	if controllersSetStatus(o) {
		delete(content, "status")
	}
	switch o.GetKind() {
	case "Service":
		for _, name := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(content, "spec", name)
		}
	case "CustomResourceDefinition":
		delete(content, "status")
	}
	if data, ok := content["data"].(map[string]any); ok && sections {
		for key, text := range data {
			var section any
			if s, ok := text.(string); ok && yaml.Unmarshal([]byte(s), &section) == nil {
				data[key] = section
			}
		}
	}
	f := fields{}
	f.add("", content)
	return f
}

// controllersSetStatus reports whether the API group of o is a group of Kubernetes: one without a dot, or
// one that ends with .k8s.io. Controllers set the status of such an object at any time.
func controllersSetStatus(o *unstructured.Unstructured) bool {
	group := o.GroupVersionKind().Group
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// ignoredKinds are kinds whose objects the control plane writes at any time.
var ignoredKinds = []string{
	"Event", "Lease", "Endpoints", "EndpointSlice", "Node", "CSINode",
	"PriorityLevelConfiguration", "FlowSchema", "ComponentStatus", "IPAddress",
}

// automanaged is the label of the APIServices that the API server itself creates, for its own kinds and for those of
// CustomResourceDefinitions.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// isTemporary reports whether the control plane itself deletes o some time after its creation. It deletes an approved
// CertificateSigningRequest, such as that of a kubelet, after an hour.
func isTemporary(o *unstructured.Unstructured) bool {
	return o.GetKind() == "CertificateSigningRequest"
}

// isCompared reports whether hooks and charts determine the content of o. Objects that a controller
// owns or writes are not compared, nor are objects that store Helm releases, nor temporary objects.
func isCompared(o *unstructured.Unstructured) bool {
	switch {
	case slices.Contains(ignoredKinds, o.GetKind()),
		o.GetKind() == "APIService" && o.GetLabels()[automanaged] != "",
		isTemporary(o),
		o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt",
		o.GetKind() == "ConfigMap" && o.GetName() == "kube-apiserver-legacy-service-account-token-tracking", // has the day on which the API server started
		o.GetKind() == "Service" && o.GetNamespace() == "default" && o.GetName() == "kubernetes":
		return false
	}
	for _, owner := range o.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			return false
		}
	}
	return o.GetLabels()["owner"] != "helm" // releases are compared separately
}
