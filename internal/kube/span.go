package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/internal/span"
)

// StartWrite begins a span for a request that writes an object or a subresource. The span belongs
// to the attempt of ctx. The caller must call the returned function with the error of the request.
// The text of that error must contain no values of the object.
//
// The span does not fail if the object is absent, exists already, or has been changed in the
// meantime: writers expect these answers.
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

// StartWait begins a span for a wait, in the attempt of ctx. The parameter what names the expected
// event, and o the object or kind. The caller must call the returned function at the end of the
// wait.
func StartWait(ctx context.Context, what string, o Ref) func(error) {
	_, waiting := span.Start(ctx, "kubernetes wait", attributes(o, span.Attributes{"wait": what}))
	return waiting.End
}

// attributes returns a with the attributes that name o.
func attributes(o Ref, a span.Attributes) span.Attributes {
	a["api_version"], a["kind"], a["namespace"], a["name"] = o.APIVersion, o.Kind, o.Namespace, o.Name
	return a
}
