package operation

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/kube"
)

func TestAnOperationInAMessageNamesItsObjectWithoutItsContent(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Operation{
		"JSONPatch Deployment/status prod/web": {Type: JSONPatch, APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: "web", Subresource: "status", JSONPatch: []byte(`[]`)},
		"Delete Namespace prod":                {Type: Delete, Kind: "Namespace", Name: "prod"},
		"Create Job prod/(name made from metadata.generateName)": {
			Type: Create, Kind: "Job", Namespace: "prod", Object: []byte(`{"metadata":{"generateName":"hunter2-"}}`),
		},
		"Create Node (name made from metadata.generateName)": {Type: Create, Kind: "Node"},
	} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAnswersNotFoundMeanAMissingObjectOnlyIfTheyNameIt(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	withoutDetails := apierrors.NewNotFound(resource, "a")
	withoutDetails.ErrStatus.Details = nil
	for name, c := range map[string]struct {
		err                            error
		missing, unserved, unsupported bool
	}{
		"the object does not exist":             {apierrors.NewNotFound(resource, "a"), true, false, true},
		"the same, wrapped":                     {fmt.Errorf("patch: %w", apierrors.NewNotFound(resource, "a")), true, false, true},
		"the answer names no object":            {apierrors.NewNotFound(resource, ""), false, true, true},
		"the answer has no details":             {withoutDetails, false, true, true},
		"the path is unknown to the server":     {apierrors.NewGenericServerResponse(404, "GET", resource, "a", "", 0, true), false, true, true},
		"access is denied":                      {apierrors.NewForbidden(resource, "a", nil), false, false, true},
		"the verb is not supported":             {apierrors.NewMethodNotSupported(resource, "watch"), false, false, true},
		"a conflict":                            {apierrors.NewConflict(resource, "a", nil), false, false, false},
		"the server is overloaded":              {apierrors.NewTooManyRequests("wait", 1), false, false, false},
		"an error that is no answer":            {errors.New("connection refused"), false, false, false},
		"a refusal, with the answer as a cause": {refusal{apierrors.NewNotFound(resource, "a")}, true, false, true},
	} {
		if isMissing(c.err) != c.missing || isUnserved(c.err) != c.unserved || isUnsupported(c.err) != c.unsupported {
			t.Errorf("%s: missing %t, unserved %t, unsupported %t", name, isMissing(c.err), isUnserved(c.err), isUnsupported(c.err))
		}
	}
}

func TestErrorOfAPatchOfAMissingObjectDependsOnTheOperation(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "configmaps"}
	missing, unserved := apierrors.NewNotFound(resource, "a"), apierrors.NewNotFound(resource, "")
	conflict := apierrors.NewConflict(resource, "a", errors.New("changed"))
	for name, c := range map[string]struct {
		subresource string
		ignore      bool
		err         error
		want        string // "" means no error
		refused     bool
	}{
		"no error":                               {},
		"missing":                                {err: missing, want: "the object does not exist; set ignoreMissingObject: true to accept this", refused: true},
		"missing and ignored":                    {err: missing, ignore: true},
		"the kind has no such subresource":       {err: unserved, subresource: "colour", ignore: true, want: "ConfigMap has no subresource colour", refused: true},
		"the kind is not served at the moment":   {err: unserved, ignore: true, want: unserved.Error()},
		"other errors are returned as they came": {err: conflict, ignore: true, want: conflict.Error()},
	} {
		target := &target{Operation: Operation{Subresource: c.subresource, IgnoreMissingObject: c.ignore}, kind: kube.Kind{}}
		target.kind.Kind = "ConfigMap"
		got, text := target.missing(c.err), ""
		if got != nil {
			text = got.Error()
		}
		if text != c.want || IsRefused(got) != c.refused {
			t.Errorf("%s: %q, refused %t; want %q, refused %t", name, text, IsRefused(got), c.want, c.refused)
		}
	}
}

func TestOnlyAFinalErrorOfADeletionNamesTheObjectThatIsLeft(t *testing.T) {
	t.Parallel()
	web := kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "web"}
	resource := schema.GroupResource{Resource: "configmaps"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                            {nil, false},
		"a final error of another operation":  {refuse("no"), false},
		"a final error":                       {sparing{refuse("others changed it"), web}, true},
		"a final error that Do explains":      {explain(fmt.Errorf("delete: %w", sparing{apierrors.NewForbidden(resource, "web", nil), web})), true},
		"a temporary error":                   {sparing{apierrors.NewTooManyRequests("wait", 1), web}, false},
		"the server does not serve the kind":  {sparing{apierrors.NewNotFound(resource, ""), web}, false},
		"an error that came before the write": {errors.New("connection refused"), false},
	} {
		object, ok := NotDeleted(c.err)
		if ok != c.want || ok && object != web || !ok && object != (kube.Ref{}) {
			t.Errorf("%s: %+v, %t; want %t", name, object, ok, c.want)
		}
	}
}

func TestErrorsThatNeedNoExplanationAreReturnedUnchanged(t *testing.T) {
	t.Parallel()
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", nil)
	if err := explain(invalid); err.Error() != invalid.Error() {
		t.Errorf("an answer without causes became %q", err)
	}
	plain := errors.New("connection refused")
	if explain(nil) != nil || explain(plain) != plain { //nolint:errorlint // the result must be the argument itself
		t.Error("an error that needs no explanation is changed")
	}
}
