package kube_test

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"addon-operator/internal/kube"
)

// rejection returns the status with which the API server rejects an object because of errors.
func rejection(errors ...*field.Error) *metav1.Status {
	status := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", errors).Status()
	return &status
}

func TestRejectedFieldsHaveNoValues(t *testing.T) {
	t.Parallel()
	path := field.NewPath("data", "password")
	for want, err := range map[string]*field.Error{
		"data.password: Invalid value: must be a number":               field.Invalid(path, `hun"ter: 2`, "must be a number"),
		"data.password: Invalid value: must be a map":                  field.Invalid(path, 4711, "must be a map"),
		"data.password: Invalid value: must be empty":                  field.Invalid(path, map[string]string{"a": `hun}"ter: 2`}, "must be empty"),
		"data.password: Required value: it is needed":                  field.Required(path, "it is needed"),
		"data.password: Forbidden: not by you":                         field.Forbidden(path, "not by you"),
		"data.password: Duplicate value":                               field.Duplicate(path, "hunter"),
		`data.password: Unsupported value: supported values: "a", "b"`: field.NotSupported(path, "hunter", []string{"a", "b"}),
	} {
		if got := kube.RejectedFields(rejection(err)); !slices.Equal(got, []string{want}) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRejectedFieldsHaveNoValuesInTheSyntaxOfGo(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`Invalid value: core.Pod{Env:[]core.Env{core.Env{Name:"A", Value:"hun}ter: 2"}}}: field is immutable`: "Invalid value: field is immutable",
		"Invalid value: []string{`hunter: 2`}: field is immutable":                                            "Invalid value: field is immutable",
		`Invalid value: hun ter: 2`:       "Invalid value",
		`Invalid value: {"a": "hunter: 2`: "Invalid value",
		`Invalid value: {"a"}}`:           "Invalid value",
		`Invalid value: "hunter: 2`:       "Invalid value",
		`Invalid value: {"hunter"} 2: x`:  "Invalid value: x",
	} {
		status := rejection()
		status.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: message, Field: "spec"}}
		if got := strings.Join(kube.RejectedFields(status), "; "); got != "spec: "+want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

func TestOtherErrorsNameNoRejectedFields(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", nil).Status()
	for _, status := range []*metav1.Status{{}, {Reason: metav1.StatusReasonInvalid}, rejection(), &forbidden} {
		if fields := kube.RejectedFields(status); fields != nil {
			t.Errorf("%+v: %q", status, fields)
		}
	}
}
