package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/kube"
)

var crdResource = schema.GroupVersionResource{Group: conversionGroup, Version: "v1", Resource: "customresourcedefinitions"}

// crdView describes a watch of the CustomResourceDefinition called name, and which of its fields
// are compared.
func crdView(name string) kube.View {
	return kube.View{
		Source: kube.Source{
			Group: crdResource.Group, Version: crdResource.Version, Resource: crdResource.Resource,
			Kind: "CustomResourceDefinition", Names: name,
		},
		Filter: "[.metadata.uid, .metadata.labels, .spec.conversion]",
	}
}

// definition is the part of a CustomResourceDefinition that configures conversions.
type definition struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Conversion *crdConversion `json:"conversion"`
	} `json:"spec"`
}

type crdConversion struct {
	Strategy string      `json:"strategy"`
	Webhook  *crdWebhook `json:"webhook,omitempty"`
}

type crdWebhook struct {
	ClientConfig             admissionv1.WebhookClientConfig `json:"clientConfig"`
	ConversionReviewVersions []string                        `json:"conversionReviewVersions"`
}

func (r *Registrar) definition(ctx context.Context, name string) (d definition, err error) {
	o, err := r.options.Client.Dynamic().Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return d, err
	}
	text, err := json.Marshal(map[string]any{
		"metadata": o.Object["metadata"], "spec": map[string]any{"conversion": nested(o.Object, "spec", "conversion")},
	})
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(text, &d)
}

func nested(o map[string]any, outer, inner string) any {
	in, _ := o[outer].(map[string]any)
	return in[inner]
}

// convert makes the API server call the operator to convert objects of a CustomResourceDefinition.
// It reports whether it has written the definition, and returns the bindings whose conversions are
// registered afterwards. If the definition does not exist, convert does nothing; the watch reports
// when the definition is created. An existing conversion webhook is replaced, because hooks declare
// the conversion and a definition can have only one webhook. The conversion webhook of another
// operator is not replaced: convert reports it to Failed, and returns an empty table and no error.
func (r *Registrar) convert(ctx context.Context, name string, want Wanted) (wrote bool, registered Table, err error) {
	d, err := r.definition(ctx, name)
	if apierrors.IsNotFound(err) {
		return false, registered, nil
	}
	if err != nil {
		return false, registered, fmt.Errorf("CustomResourceDefinition %s: %w", name, err)
	}
	owner := d.Metadata.Labels[ownerLabel]
	if owner != "" && owner != r.options.Namespace {
		r.reportFailure(&foreignError{"the conversion of CustomResourceDefinition " + name, "the operator in namespace " + owner})
		return false, registered, nil
	}
	registered.Conversions = want.crds()[name]
	conversion := &crdConversion{"Webhook", &crdWebhook{want.Conversion.clientConfig(r.options.Namespace, crdPath(name)), []string{"v1", "v1beta1"}}}
	if owner != "" && reflect.DeepEqual(d.Spec.Conversion, conversion) {
		return false, registered, nil
	}
	return true, registered, r.patch(ctx, name, d, r.options.Namespace, conversion)
}

// restore removes this operator's conversion webhook and label from a CustomResourceDefinition.
func (r *Registrar) restore(ctx context.Context, name string) error {
	d, err := r.definition(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("CustomResourceDefinition %s: %w", name, err)
	}
	if d.Metadata.Labels[ownerLabel] != r.options.Namespace {
		return nil
	}
	return r.patch(ctx, name, d, "", &crdConversion{Strategy: "None"})
}

// patch writes the conversion and the owner label of a definition. If the definition has changed
// since d was read, patch returns a conflict. An empty owner removes the label.
func (r *Registrar) patch(ctx context.Context, name string, d definition, owner string, c *crdConversion) error {
	labels := map[string]any{ownerLabel: nil}
	if owner != "" {
		labels[ownerLabel] = owner
	}
	conversion := map[string]any{"strategy": c.Strategy, "webhook": nil}
	if c.Webhook != nil {
		// A merge patch does not change fields that it does not contain. So it must contain all
		// fields that the client configuration may have had before, with the value null if they
		// must be removed.
		client := map[string]any{"url": nil, "service": nil, "caBundle": c.Webhook.ClientConfig.CABundle}
		if c.Webhook.ClientConfig.URL != nil {
			client["url"] = *c.Webhook.ClientConfig.URL
		} else {
			client["service"] = c.Webhook.ClientConfig.Service
		}
		conversion["webhook"] = map[string]any{
			"clientConfig": client, "conversionReviewVersions": c.Webhook.ConversionReviewVersions,
		}
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": d.Metadata.ResourceVersion, "labels": labels},
		"spec":     map[string]any{"conversion": conversion},
	})
	if err != nil {
		return err
	}
	_, err = r.options.Client.Dynamic().Resource(crdResource).
		Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("CustomResourceDefinition %s: %w", name, err)
	}
	return nil
}
