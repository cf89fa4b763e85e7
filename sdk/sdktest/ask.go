package sdktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
)

// Admit runs the hook for an admission request to the binding with this name. The argument request is the content of
// the field "request" of an AdmissionReview, in YAML or JSON. The field Verdict of the result has the answer of the
// hook.
func (t *Test) Admit(binding, request string) *Result {
	t.t.Helper()
	element, mutating := t.admission(binding)
	element.Review = wrapReview(t.t, request)
	r, files := t.execute([]hook.Element{element})
	if r.Err != nil {
		return r
	}
	verdict, err := hook.ParseVerdict(files["ADMISSION_RESPONSE_PATH"], mutating)
	if r.Err = t.applyOutput(t.t.Context(), r, files, err, checkReview(files)); r.Err == nil {
		r.Verdict = &verdict
	}
	return r
}

// admission returns the element for the admission binding called name, without its review, and whether the binding
// may change the object.
func (t *Test) admission(name string) (e hook.Element, mutating bool) {
	t.t.Helper()
	var names []string
	for i, b := range slices.Concat(t.config.Validating, t.config.Mutating) {
		if b.Name != name {
			names = append(names, b.Name)
			continue
		}
		e = hook.Element{Binding: name, Type: hook.TypeValidating, Group: b.Group, Snapshots: t.snapshots(b.IncludeSnapshotsFrom)}
		if mutating = i >= len(t.config.Validating); mutating {
			e.Type = hook.TypeMutating
		}
		return e, mutating
	}
	t.t.Fatalf("the hook has no admission binding %s, %s", name, bindings(names))
	return e, false
}

// Convert runs the conversion binding with this name for objects, which are documents of YAML or JSON. The arguments
// from and to are the versions, in the form GROUP/VERSION. The field Converted of the result has the converted objects.
func (t *Test) Convert(binding, from, to, objects string) *Result {
	t.t.Helper()
	i := slices.IndexFunc(t.config.Conversion, func(b hook.ConversionBinding) bool { return b.Name == binding })
	if i < 0 {
		t.t.Fatalf("the hook has no conversion binding %s", binding)
	}
	parsed, err := parseObjects(objects)
	if err != nil {
		t.t.Fatalf("objects: %v", err)
	}
	asked := make([]json.RawMessage, len(parsed))
	for i, object := range parsed {
		if asked[i], err = object.MarshalJSON(); err != nil {
			t.t.Fatalf("objects: %v", err)
		}
	}
	request, err := json.Marshal(map[string]any{"uid": "1", "desiredAPIVersion": to, "objects": asked})
	if err != nil {
		t.t.Fatal(err)
	}
	r, files := t.execute([]hook.Element{{
		Binding: binding, Type: hook.TypeConversion, FromVersion: from, ToVersion: to, Review: wrapReview(t.t, string(request)),
		Group: t.config.Conversion[i].Group, Snapshots: t.snapshots(t.config.Conversion[i].IncludeSnapshotsFrom),
	}})
	if r.Err != nil {
		return r
	}
	converted, err := hook.ParseConverted(files["CONVERSION_RESPONSE_PATH"], asked, to)
	if r.Err = t.applyOutput(t.t.Context(), r, files, err, checkReview(files)); r.Err != nil {
		return r
	}
	if converted.Failed != "" {
		r.Err = fmt.Errorf("the conversion by the hook failed: %s", converted.Failed)
		return r
	}
	r.Converted = converted.Objects
	return r
}

// checkReview returns an error if a hook that has answered the API server has written a patch of the ConfigMap, because
// the operator rejects such a patch.
func checkReview(files map[string][]byte) error {
	patch, err := values.ParsePatch(files["CONFIG_VALUES_JSON_PATCH_PATH"])
	if err == nil && len(patch) > 0 {
		return errors.New("CONFIG_VALUES_JSON_PATCH_PATH: a hook that answers the API server cannot write the ConfigMap; patch the values")
	}
	return nil
}

// wrapReview returns a review that contains only the request.
func wrapReview(t testing.TB, request string) json.RawMessage {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(request))
	if err != nil {
		t.Fatalf("the request is not valid YAML: %v", err)
	}
	return json.RawMessage(`{"request":` + string(asJSON) + `}`)
}
