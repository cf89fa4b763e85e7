package operation

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWhatTheServerFindsInvalidIsToldWithoutTheValue(t *testing.T) {
	t.Parallel()
	path := field.NewPath("data", "password")
	for want, cause := range map[string]*field.Error{
		"data.password: Invalid value: must be a number":               field.Invalid(path, `hun"ter: 2`, "must be a number"),
		"data.password: Invalid value":                                 field.Invalid(path, map[string]string{"a": "hunter: 2"}, "must be a number"),
		"data.password: Required value: it is needed":                  field.Required(path, "it is needed"),
		"data.password: Forbidden: not by you":                         field.Forbidden(path, "not by you"),
		"data.password: Duplicate value":                               field.Duplicate(path, "hunter"),
		`data.password: Unsupported value: supported values: "a", "b"`: field.NotSupported(path, "hunter", []string{"a", "b"}),
	} {
		err := explain(apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", field.ErrorList{cause}))
		if !strings.HasSuffix(err.Error(), ": "+want) || strings.Contains(err.Error(), "hun") {
			t.Errorf("%q, want %q", err, want)
		}
		if !IsRefused(err) {
			t.Errorf("%v is no refusal", err)
		}
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
