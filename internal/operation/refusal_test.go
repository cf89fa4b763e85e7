package operation

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWhatTheServerFindsInvalidIsToldWithoutTheValue(t *testing.T) {
	t.Parallel()
	cause := field.Invalid(field.NewPath("data", "password"), "hunter", "must be a number")
	err := explain(apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", field.ErrorList{cause}))
	if want := "the API server rejects it as invalid: data.password: Invalid value: must be a number"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if !IsRefused(err) {
		t.Errorf("%v is no refusal", err)
	}
}

func TestOnlyWhatMayPassByItselfIsTriedAgain(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "configmaps"}
	for name, c := range map[string]struct {
		err     error
		refused bool
	}{
		"forbidden":         {apierrors.NewForbidden(resource, "a", nil), true},
		"not found":         {apierrors.NewNotFound(resource, "a"), true},
		"bad request":       {apierrors.NewBadRequest("no"), true},
		"conflict":          {apierrors.NewConflict(resource, "a", nil), false},
		"too many requests": {apierrors.NewTooManyRequests("wait", 1), false},
		"server trouble":    {apierrors.NewInternalError(errors.New("etcd")), false},
		"no such path":      {apierrors.NewGenericServerResponse(404, "GET", resource, "", "", 0, true), false},
		"no answer in time": {explain(context.DeadlineExceeded), false},
		"our own":           {explain(refuse("no")), true},
	} {
		if got := IsRefused(c.err); got != c.refused {
			t.Errorf("%s: refused %t", name, got)
		}
	}
}
