package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"addon-operator/e2e/cluster"
)

var objectCommands = map[string]command{
	"apply":     applyFile,
	"delete":    deleteObject,
	"patch":     patchObject,
	"get":       getObject,
	"gone":      awaitGone,
	"configmap": configMap,
}

// configMapName is the name of the operator's ConfigMap. It is the default of the operator.
const configMapName = "addon-operator"

func ctx() context.Context { return context.Background() }

// applyFile implements the command "apply FILE". It applies the objects in a YAML file. It replaces NAMESPACE in the
// file by the namespace of the story, and $REPO by the URL of the story's repository server.
func applyFile(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("apply FILE")
	}
	return w.applyText(strings.NewReplacer("NAMESPACE", w.namespace, "$REPO", ts.Getenv("REPO")).Replace(ts.ReadFile(args[0])))
}

// applyText applies the objects in a YAML text, which can have several documents.
func (w *environment) applyText(text string) error {
	documents := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(o.Object) == 0 {
			continue
		}
		if err := w.apply(o); err != nil {
			return err
		}
	}
}

// apply applies an object with server-side apply. The CRD of the object may have been created or changed a moment ago,
// so apply waits until the API server serves the kind.
func (w *environment) apply(o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	return wait(func() error {
		mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil {
			_, err = w.at(mapping, o.GetNamespace()).Apply(ctx(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "story", Force: true})
		}
		if !isKindNotServed(err) {
			return finally(err)
		}
		w.mapper.Reset()
		return err
	})
}

// isKindNotServed reports whether err means that the API server does not serve the kind yet. Discovery lists a kind
// shortly before requests for it are served. After a CRD is deleted, discovery may still list its kind, although
// requests for the kind return 404 or 405.
func isKindNotServed(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (w *environment) at(mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return w.dynamic.Resource(mapping.Resource)
	}
	if namespace == "" {
		namespace = w.namespace
	}
	return w.dynamic.Resource(mapping.Resource).Namespace(namespace)
}

// named returns a client and the name for an object that a story calls KIND/NAME, or KIND/NAMESPACE/NAME if the object
// is not in the namespace of the story.
func (w *environment) named(object string) (dynamic.ResourceInterface, string, error) {
	kind, name, ok := strings.Cut(object, "/")
	if !ok {
		return nil, "", fmt.Errorf("%q is not an object: want KIND/NAME", object)
	}
	named := schema.GroupVersionResource{Resource: strings.ToLower(kind)}
	gvr, err := w.mapper.ResourceFor(named)
	if meta.IsNoMatchError(err) { // the CRD may be newer than the cached discovery
		w.mapper.Reset()
		gvr, err = w.mapper.ResourceFor(named)
	}
	if err != nil {
		return nil, "", err
	}
	gvk, err := w.mapper.KindFor(gvr)
	if err != nil {
		return nil, "", err
	}
	mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, "", err
	}
	namespace, inNamespace, other := strings.Cut(name, "/")
	if other {
		return w.at(mapping, namespace), inNamespace, nil
	}
	return w.at(mapping, ""), name, nil
}

func deleteObject(w *environment, _ *testscript.TestScript, args []string) error {
	for _, object := range args {
		at, name, err := w.named(object)
		if err != nil {
			return err
		}
		if err := at.Delete(ctx(), name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// patchObject implements the command "patch KIND/NAME JSON [status]". It applies JSON as a merge patch to an object,
// or to its subresource status.
func patchObject(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 && (len(args) != 3 || args[2] != "status") {
		return usage("patch KIND/NAME JSON [status]")
	}
	at, name, err := w.named(args[0])
	if err != nil {
		return err
	}
	change := strings.ReplaceAll(args[1], "$REPO", ts.Getenv("REPO"))
	_, err = at.Patch(ctx(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{FieldManager: "story"}, args[2:]...)
	return err
}

// getObject implements the command "get KIND/NAME [FILTER]". It waits until the object exists, and prints the results
// of the jq filter FILTER for it.
func getObject(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return usage("get KIND/NAME [FILTER]")
	}
	var text []byte
	if err := wait(func() (err error) { text, err = w.read(args[0]); return err }); err != nil {
		return err
	}
	return printJSON(ts, text, strings.ReplaceAll(append(args[1:], ".")[0], "$REPO", ts.Getenv("REPO")))
}

// read returns the JSON of an object. The argument has the form KIND/NAME, as in stories.
func (w *environment) read(object string) ([]byte, error) {
	at, name, err := w.named(object)
	if err != nil {
		return nil, err
	}
	o, err := at.Get(ctx(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// namespacePatience is the maximum time for which a story waits until a namespace is deleted. The namespace controller
// sends more than a hundred requests for each namespace, and can be busy with namespaces of other stories.
const namespacePatience = 4 * time.Minute

// deletionOf returns a text that says since when o is being deleted, with the conditions in its status. If o is not
// being deleted, it returns "".
func deletionOf(o *unstructured.Unstructured) string {
	if o == nil || o.GetDeletionTimestamp() == nil {
		return ""
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	return fmt.Sprintf(", being deleted since %s, conditions %v", o.GetDeletionTimestamp().UTC().Format(time.RFC3339), conditions)
}

// awaitGone implements the command "gone KIND/NAME...". It waits until none of the objects exists.
func awaitGone(w *environment, _ *testscript.TestScript, args []string) error {
	for _, object := range args {
		var repeat cluster.DeletionRepeater
		limit := patience
		if strings.HasPrefix(object, "namespace/") {
			limit = namespacePatience
		}
		if err := waitAtMost(limit, func() error {
			at, name, err := w.named(object)
			if err != nil {
				return err
			}
			o, err := at.Get(ctx(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err == nil {
				err = repeat.Look(ctx(), at, o)
			}
			return errors.Join(err, fmt.Errorf("%s exists%s", object, deletionOf(o)))
		}); err != nil {
			return err
		}
	}
	return nil
}

// configMap implements the commands that change, show or delete the operator's ConfigMap. "set" and "unset" create it
// if it does not exist:
//
//	configmap set KEY=VALUE|KEY=@FILE...
//	configmap unset KEY...
//	configmap show
//	configmap delete
func configMap(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("configmap set|unset|show|delete [ARG...]")
	}
	maps := w.kube.CoreV1().ConfigMaps(w.namespace)
	switch args[0] {
	case "delete":
		return maps.Delete(ctx(), configMapName, metav1.DeleteOptions{})
	case "show":
		m, err := maps.Get(ctx(), configMapName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, key := range sorted(m.Data) {
			say(ts, fmt.Sprintf("%s: %q\n", key, m.Data[key]))
		}
		return nil
	}
	data := map[string]any{}
	for _, arg := range args[1:] {
		key, value, given := strings.Cut(arg, "=")
		switch {
		case args[0] == "unset":
			data[key] = nil
		case args[0] != "set" || !given:
			return usage("configmap set KEY=VALUE... | unset KEY...")
		case strings.HasPrefix(value, "@"):
			data[key] = ts.ReadFile(value[1:])
		default:
			data[key] = value
		}
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	_, err = maps.Patch(ctx(), configMapName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "story"})
	if !apierrors.IsNotFound(err) {
		return err
	}
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMapName}, Data: map[string]string{}}
	for key, value := range data {
		if text, isSet := value.(string); isSet {
			created.Data[key] = text
		}
	}
	// Create the ConfigMap with its data: the API server records no field manager for an object without fields.
	_, err = maps.Create(ctx(), created, metav1.CreateOptions{FieldManager: "story"})
	return err
}
