package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/internal/span"
)

// StartWrite begins a part of the attempt of ctx that writes an object, or a subresource of it. The
// returned function must be called with the error of the request, whose text contains no values of the
// object.
//
// An answer that the writer expects is no failure of the part: that the object is absent, exists
// already, or was changed meanwhile.
func StartWrite(ctx context.Context, verb string, o Ref, subresource string) (context.Context, func(error)) {
	ctx, writing := span.Start(ctx, "kubernetes "+verb, attributes(o, span.Attributes{"verb": verb, "subresource": subresource}))
	return ctx, func(err error) {
		if err != nil {
			writing.Set("answer", string(apierrors.ReasonForError(err)))
		}
		if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			err = nil
		}
		writing.End(err)
	}
}

// StartWait begins a span of the attempt of ctx: a wait for what, which concerns the object or kind o.
// The returned function must be called at the end of the wait.
func StartWait(ctx context.Context, what string, o Ref) func(error) {
	_, waiting := span.Start(ctx, "kubernetes wait", attributes(o, span.Attributes{"wait": what}))
	return waiting.End
}

// attributes returns a with the attributes that name o.
func attributes(o Ref, a span.Attributes) span.Attributes {
	a["api_version"], a["kind"], a["namespace"], a["name"] = o.APIVersion, o.Kind, o.Namespace, o.Name
	return a
}
