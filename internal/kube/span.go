package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/internal/span"
)

// StartWrite starts a tracing span for a request that writes the object o or a subresource of it. The span is part of
// the attempt to which ctx belongs. The caller must call the returned function with the error of the request. The text
// of that error must not contain values of the object.
//
// If the object does not exist, already exists, or has been changed in the meantime, the span is not marked as failed:
// writers expect these answers.
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

// StartWait starts a tracing span for a wait, as part of the attempt to which ctx belongs. The span records the event
// for which the caller waits, and the object or kind o. At the end of the wait, the caller must call the returned
// function.
func StartWait(ctx context.Context, what string, o Ref) func(error) {
	_, waiting := span.Start(ctx, "kubernetes wait", attributes(o, span.Attributes{"wait": what}))
	return waiting.End
}

// attributes adds the attributes that identify o to a, and returns a.
func attributes(o Ref, a span.Attributes) span.Attributes {
	a["api_version"], a["kind"], a["namespace"], a["name"] = o.APIVersion, o.Kind, o.Namespace, o.Name
	return a
}
