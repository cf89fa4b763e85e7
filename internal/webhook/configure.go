package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"addon-operator/internal/kube"
)

// admissionKind is one of the two kinds of webhook configurations, validating or mutating.
type admissionKind struct {
	kind     string
	resource schema.GroupVersionResource
	mutating bool
}

var (
	validating = admissionKind{
		"ValidatingWebhookConfiguration", admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"), false,
	}
	mutating = admissionKind{
		"MutatingWebhookConfiguration", admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"), true,
	}
)

// of returns the admission bindings in t whose webhooks are in a configuration of this kind.
func (k admissionKind) of(t Table) []Admission {
	return slices.DeleteFunc(slices.Clone(t.Admissions), func(a Admission) bool { return a.Mutating != k.mutating })
}

// view describes a watch of the configuration called name, and which of its fields are compared.
func (k admissionKind) view(name string) kube.View {
	return kube.View{
		Source: kube.Source{
			Group: k.resource.Group, Version: k.resource.Version, Resource: k.resource.Resource, Kind: k.kind, Names: name,
		},
		Filter: "[.metadata.uid, .metadata.labels, .webhooks]",
	}
}

// clientConfig returns the client configuration of a webhook, with which the API server calls the
// URL path in the argument path at the address p.
func (p Place) clientConfig(namespace, path string) admissionv1.WebhookClientConfig {
	c := admissionv1.WebhookClientConfig{CABundle: p.Bundle}
	if p.URL != "" {
		url := p.URL + path
		c.URL = &url
		return c
	}
	port := int32(443)
	c.Service = &admissionv1.ServiceReference{Namespace: namespace, Name: p.Service, Path: &path, Port: &port}
	return c
}

// matches reports whether the client configuration c refers to the address p, with any URL path.
func (p Place) matches(namespace string, c admissionv1.WebhookClientConfig) bool {
	if c.Service != nil {
		return p.URL == "" && c.Service.Namespace == namespace && c.Service.Name == p.Service
	}
	return p.URL != "" && c.URL != nil && strings.HasPrefix(*c.URL, p.URL+"/")
}

// webhooks returns the wanted webhooks of a configuration, without those that the API server has
// refused, and the binding of each. It sets all fields for which the API server has defaults, so
// that the result can be compared with the stored configuration. For both kinds, it uses the type
// of mutating webhooks, which has one field more than the type of validating webhooks.
func (r *Registrar) webhooks(kind admissionKind, want Wanted) (hooks []admissionv1.MutatingWebhook, of []Admission) {
	used := map[string]int{}
	for _, a := range kind.of(want.Table) {
		// Several hooks may use the same name for their webhooks, but the API server requires
		// unique names.
		name := a.Config.Name
		if used[name]++; used[name] > 1 {
			name = strconv.Itoa(used[name]) + "." + name
		}
		if r.refused[a.path()] != nil {
			continue
		}
		equivalent, never, timeout := admissionv1.Equivalent, admissionv1.NeverReinvocationPolicy, int32(a.Config.TimeoutSeconds)
		hook := admissionv1.MutatingWebhook{
			Name: name, ClientConfig: want.Admission.clientConfig(r.options.Namespace, a.path()), Rules: a.Config.Rules,
			FailurePolicy: &a.Config.FailurePolicy, MatchPolicy: &equivalent, SideEffects: &a.Config.SideEffects,
			TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1", "v1beta1"}, MatchConditions: a.Config.MatchConditions,
			NamespaceSelector: orAny(a.Config.Namespaces), ObjectSelector: orAny(a.Config.Objects),
		}
		if kind.mutating {
			hook.ReinvocationPolicy = &never
		}
		hooks, of = append(hooks, hook), append(of, a)
	}
	return hooks, of
}

func orAny(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return &metav1.LabelSelector{}
	}
	return s
}

// configure writes the configuration of a kind if it differs from the wanted one, and reports
// whether it has written the configuration. If the API server rejects some of the webhooks,
// configure reports them and writes only the others. The result registered has the bindings whose
// webhooks are in the configuration afterwards. If the configuration belongs to another program,
// configure reports this to Failed, and returns an empty table and no error.
func (r *Registrar) configure(ctx context.Context, kind admissionKind, want Wanted) (wrote bool, registered Table, err error) {
	for {
		wrote, err := r.configureOnce(ctx, kind, want)
		var refusal *refusedError
		var foreign *foreignError
		switch {
		case errors.As(err, &refusal): // write the other webhooks without the refused ones
			for path, why := range refusal.why {
				r.refused[path] = why
				r.options.Refused(refusal.of[path], why)
			}
			continue
		case errors.As(err, &foreign): // no retry, because the watch reports the next change of the object
			r.reportFailure(err)
			return false, Table{}, nil
		case err != nil:
			return false, Table{}, fmt.Errorf("%s %s: %w", kind.kind, r.configuration(), err)
		}
		_, registered.Admissions = r.webhooks(kind, want)
		return wrote, registered, nil
	}
}

func (r *Registrar) configureOnce(ctx context.Context, kind admissionKind, want Wanted) (wrote bool, err error) {
	hooks, of := r.webhooks(kind, want)
	if len(hooks) == 0 && !r.present[kind.resource.Resource] {
		return false, nil
	}
	objects := r.options.Client.Dynamic().Resource(kind.resource)
	is, err := r.read(ctx, objects, kind)
	if err != nil || is.absent && len(hooks) == 0 {
		return false, err
	}
	owned := is.object.GetLabels()[ownerLabel] == r.options.Namespace
	if !is.absent && !owned && !r.mayTake(is.object, is.hooks, want.Admission) {
		if len(kind.of(want.Table)) == 0 {
			return false, nil
		}
		return false, &foreignError{kind.kind + " " + is.object.GetName(), ownerOf(is.object)}
	}
	if len(hooks) == 0 {
		return is.remove(ctx, objects)
	}
	if owned && equality.Semantic.DeepEqual(is.hooks, hooks) {
		return false, nil
	}
	if err := r.fill(is.object, hooks); err != nil {
		return false, err
	}
	r.present[kind.resource.Resource] = true
	err = is.write(ctx, objects)
	return err == nil, refusals(err, of)
}

// A configuration is a webhook configuration that exists in the cluster or must be created.
type configuration struct {
	object *unstructured.Unstructured // if absent is true, a new object to create
	hooks  []admissionv1.MutatingWebhook
	absent bool
}

// read returns the stored configuration of a kind. If it does not exist, the field absent of the
// result is true.
func (r *Registrar) read(ctx context.Context, objects dynamic.ResourceInterface, kind admissionKind) (is configuration, err error) {
	is.object, err = objects.Get(ctx, r.configuration(), metav1.GetOptions{})
	if is.absent = apierrors.IsNotFound(err); is.absent {
		is.object, err = &unstructured.Unstructured{}, nil
		is.object.SetAPIVersion(kind.resource.GroupVersion().String())
		is.object.SetKind(kind.kind)
		is.object.SetName(r.configuration())
	}
	if err != nil {
		return is, err
	}
	is.hooks, err = readWebhooks(is.object)
	return is, err
}

// write creates or updates the configuration.
func (is *configuration) write(ctx context.Context, objects dynamic.ResourceInterface) (err error) {
	if is.absent {
		_, err = objects.Create(ctx, is.object, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		_, err = objects.Update(ctx, is.object, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return err
}

// remove deletes the configuration and reports whether it was deleted. If an object with another
// UID has the name by then, remove does not delete this object.
func (is *configuration) remove(ctx context.Context, objects dynamic.ResourceInterface) (bool, error) {
	uid := is.object.GetUID()
	err := objects.Delete(ctx, is.object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// fieldManager is the field manager for all writes of the package.
const fieldManager = "addon-operator"

// fill sets the webhooks and the operator's labels in o.
func (r *Registrar) fill(o *unstructured.Unstructured, hooks []admissionv1.MutatingWebhook) error {
	text, err := json.Marshal(hooks)
	if err != nil {
		return err
	}
	var list []any
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ownerLabel], labels["app.kubernetes.io/managed-by"] = r.options.Namespace, fieldManager
	o.SetLabels(labels)
	o.Object["webhooks"] = list
	return nil
}

func readWebhooks(o *unstructured.Unstructured) (hooks []admissionv1.MutatingWebhook, err error) {
	text, err := json.Marshal(o.Object["webhooks"])
	if err != nil {
		return nil, err
	}
	return hooks, json.Unmarshal(text, &hooks)
}

// mayTake reports whether the operator may take over the configuration o, which another program has
// written. The configuration must have no owner label and at least one webhook, and all its
// webhooks must refer to place, which is the address of this operator. A program such as
// shell-operator that ran in this namespace before can have left this configuration.
func (r *Registrar) mayTake(o *unstructured.Unstructured, hooks []admissionv1.MutatingWebhook, place Place) bool {
	if o.GetLabels()[ownerLabel] != "" {
		return false
	}
	for _, hook := range hooks {
		if !place.matches(r.options.Namespace, hook.ClientConfig) {
			return false
		}
	}
	return len(hooks) > 0
}

// ownerOf describes the owner of an object in words.
func ownerOf(o *unstructured.Unstructured) string {
	if owner := o.GetLabels()[ownerLabel]; owner != "" {
		return "the operator in namespace " + owner
	}
	return "somebody else"
}

// findLeft finds objects that earlier processes of this operator have written. It deletes webhook
// configurations whose name is not the current one. It records the CustomResourceDefinitions. If no
// hook declares a conversion for such a CustomResourceDefinition any more, the registrar removes
// its conversion webhook.
func (r *Registrar) findLeft(ctx context.Context) error {
	ours := metav1.ListOptions{LabelSelector: ownerLabel + "=" + r.options.Namespace}
	for _, kind := range []admissionKind{validating, mutating} {
		objects := r.options.Client.Metadata().Resource(kind.resource)
		left, err := objects.List(ctx, ours)
		if err != nil {
			return fmt.Errorf("list %s of earlier processes: %w", kind.resource.Resource, err)
		}
		for _, o := range left.Items {
			if o.Name == r.configuration() {
				r.present[kind.resource.Resource] = true
				continue
			}
			if err := objects.Delete(ctx, o.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s %s of an earlier process: %w", kind.kind, o.Name, err)
			}
		}
	}
	left, err := r.options.Client.Metadata().Resource(crdResource).List(ctx, ours)
	if err != nil {
		return fmt.Errorf("list customresourcedefinitions of earlier processes: %w", err)
	}
	for _, o := range left.Items {
		r.converted[o.Name] = true
	}
	return nil
}
