package crashtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
)

// thing identifies a part of a state: an object, a release, or values.
type thing struct {
	Kind, Namespace, Name string
}

func (t thing) String() string {
	if t.Name == "" {
		return t.Kind
	}
	if t.Namespace == "" {
		return t.Kind + " " + t.Name
	}
	return t.Kind + " " + t.Namespace + "/" + t.Name
}

// Kinds of things that are not objects of the cluster.
const (
	releaseKind = "release"
	valuesKind  = "values of module"
	globalKind  = "global values"
	moduleKind  = "module"
)

// state has the compared fields of each thing at the end of a round.
type state map[thing]fields

// client reads and writes the cluster of a round.
type client struct {
	dynamic   dynamic.Interface
	discovery *discovery.DiscoveryClient
}

// connect returns a client for the cluster in a kubeconfig file, without a rate limit.
func connect(kubeconfig string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return newClient(config)
}

func newClient(config *rest.Config) (*client, error) {
	config.QPS = -1
	one, err1 := dynamic.NewForConfig(config)
	other, err2 := discovery.NewDiscoveryClientForConfig(config)
	return &client{one, other}, errors.Join(err1, err2)
}

// resource is a served resource whose objects can be listed, created and deleted.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// resources returns the served resources, each in its preferred version.
func (c *client) resources() ([]resource, error) {
	lists, err := c.discovery.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("list the served kinds: %w", err)
	}
	var out []resource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "create") && slices.Contains(r.Verbs, "delete") {
				out = append(out, resource{version.WithResource(r.Name), r.Kind, r.Namespaced})
			}
		}
	}
	return out, nil
}

// objects returns all objects of the cluster that hooks, charts or users may have created.
func (c *client) objects(ctx context.Context) (map[resource][]*unstructured.Unstructured, error) {
	resources, err := c.resources()
	if err != nil {
		return nil, err
	}
	out := map[resource][]*unstructured.Unstructured{}
	for _, r := range resources {
		if r.Group == "events.k8s.io" || slices.Contains(ignoredKinds, r.kind) {
			continue
		}
		list := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
			return c.dynamic.Resource(r.GroupVersionResource).List(ctx, o)
		}))
		err := list.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			if u, ok := o.(*unstructured.Unstructured); ok {
				out[r] = append(out[r], u)
			}
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
			return nil, fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
	}
	return out, nil
}

// clusterState returns the state of the objects and releases of a cluster. The ConfigMap with the
// name in config is the operator's ConfigMap: the texts in its data are compared as YAML.
func (c *client) clusterState(ctx context.Context, namespace, config string) (state, error) {
	objects, err := c.objects(ctx)
	if err != nil {
		return nil, err
	}
	out, unnamed := state{}, map[thing][]fields{}
	for r, list := range objects {
		for _, o := range list {
			if isRelease(o) {
				out.addRelease(o)
			}
			if !isCompared(o) {
				continue
			}
			f := fieldsOf(o, o.GetKind() == "ConfigMap" && o.GetNamespace() == namespace && o.GetName() == config)
			of := thing{r.kind, o.GetNamespace(), o.GetName()}
			if prefix := o.GetGenerateName(); prefix != "" {
				of.Name = prefix + "*"
				unnamed[of] = append(unnamed[of], f)
				continue
			}
			out[of] = f
		}
	}
	for of, all := range unnamed {
		slices.SortFunc(all, func(a, b fields) int { return cmp.Compare(a.text(), b.text()) })
		for i, f := range all {
			out[thing{of.Kind, of.Namespace, of.Name + " (" + strconv.Itoa(i+1) + ")"}] = f
		}
	}
	return out, nil
}

// text returns the fields as one string, for sorting.
func (f fields) text() string { return fmt.Sprintf("%q", map[string]string(f)) }

func isRelease(o *unstructured.Unstructured) bool {
	return o.GetLabels()["owner"] == "helm" && (o.GetKind() == "Secret" || o.GetKind() == "ConfigMap")
}

// addRelease adds a revision of a Helm release. Only the status of the last revision is compared,
// because a crash may add a revision.
func (s state) addRelease(o *unstructured.Unstructured) {
	labels := o.GetLabels()
	of := thing{releaseKind, o.GetNamespace(), labels["name"]}
	revision, _ := strconv.Atoi(labels["version"]) // 0 if the label "version" is missing
	if before, ok := s[of]; ok {
		if last, _ := strconv.Atoi(before[""]); last > revision {
			return
		}
	}
	s[of] = fields{"": labels["version"], "status": labels["status"]}
}

// state returns the state of the cluster, and of the modules of a running operator.
func (s *environment) state(ctx context.Context, c *client) (state, error) {
	out, err := c.clusterState(ctx, s.namespace, s.configMap)
	if err != nil {
		return nil, err
	}
	for of, f := range out {
		if of.Kind == releaseKind {
			delete(f, "") // the revision
		}
	}
	var list struct {
		Modules []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"modules"`
	}
	if err := s.get(ctx, "/module/list.json", &list); err != nil {
		return nil, err
	}
	for _, m := range list.Modules {
		out[thing{Kind: moduleKind, Name: m.Name}] = fields{"enabled": strconv.FormatBool(m.Enabled)}
		if !m.Enabled {
			continue
		}
		values, err := s.values(ctx, m.Name)
		if err != nil {
			return nil, err
		}
		out[thing{Kind: valuesKind, Name: m.Name}] = leaves(values)
	}
	values, err := s.values(ctx, "")
	if err != nil {
		return nil, err
	}
	out[thing{Kind: globalKind}] = leaves(values)
	return out, nil
}

func leaves(values map[string]any) fields {
	f := fields{}
	f.add("", values)
	return f
}
