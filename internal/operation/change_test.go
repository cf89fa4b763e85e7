package operation_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/operation"
)

func TestMergePatchMergesAndNullTakesAway(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.made(configMaps, configMapA)
	s.do("operation: MergePatch\nkind: ConfigMap\nnamespace: NS\nname: a\nmergePatch: |\n  data:\n    k: null\n    other: x\n")
	s.shows("a", `{"other":"x"}`)
}

func TestAPatchOfAMissingObjectIsRefusedUnlessThatIsIgnored(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for _, patch := range []string{
		`{"operation":"MergePatch","kind":"ConfigMap","namespace":"NS","name":"a","mergePatch":{}}`,
		`{"operation":"JSONPatch","kind":"ConfigMap","namespace":"NS","name":"a","jsonPatch":[{"op":"add","path":"/data","value":{}}]}`,
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data = {}"}`,
	} {
		s.refuses(patch, s.attempt(), "the object does not exist; set ignoreMissingObject: true to accept this")
		s.do(strings.Replace(patch, "{", `{"ignoreMissingObject":true,`, 1))
	}
	if !s.gone(configMaps, "a") {
		t.Error("it was made")
	}
}

const (
	roleA    = `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`
	addRule  = `{"operation":"JSONPatch","kind":"Role","namespace":"NS","name":"a","jsonPatch":[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}}]}`
	addOther = `{"operation":"JSONPatch","kind":"Role","namespace":"NS","name":"a","jsonPatch":[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}}]}`
	addRule2 = `{"operation":"JQPatch","kind":"Role","namespace":"NS","name":"a","jqFilter":".rules += [{apiGroups: [\"\"], resources: [\"secrets\"], verbs: [\"get\"]}]"}`
)

// lose executes a patch whose request to write the object is answered with 503 and does not reach the API server. It
// fails the test unless the error is temporary, and a mark was stored before the request.
func (s *fixture) lose(text string) {
	s.t.Helper()
	config := rest.CopyConfig(cluster.Start(s.t).Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return overloaded{next} })
	err := s.executorOf(config).Do(s.t.Context(), s.parse(text), s.attempt())
	if err == nil || operation.IsRefused(err) || s.noted == nil {
		s.t.Fatalf("%s: %v, noted %+v", text, err, s.noted)
	}
}

// overloaded answers 503 to PATCH and PUT requests, and sends all other requests.
type overloaded struct{ http.RoundTripper }

func (o overloaded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch && r.Method != http.MethodPut {
		return o.RoundTripper.RoundTrip(r)
	}
	return &http.Response{
		Status: "503 Service Unavailable", StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"text/plain"}},
		Body: io.NopCloser(strings.NewReader("etcdserver: leader changed")), Request: r,
	}, nil
}

// rules returns the number of rules in the Role named a.
func (s *fixture) rules() int {
	s.t.Helper()
	rules, _ := s.get(roles, "a").Object["rules"].([]any)
	return len(rules)
}

func TestAPatchThatAddsIsSentOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]string{"JSONPatch": addRule, "JQPatch": addRule2} {
		t.Run(name+" sent before the crash", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.made(roles, roleA)
			s.do(patch)
			if err := s.try(patch, s.resend(s.noted)); err != nil || s.rules() != 2 {
				t.Errorf("%d rules, %v", s.rules(), err)
			}
		})
		t.Run(name+" sent before the crash and changed by others since", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.made(roles, roleA)
			s.do(patch)
			noted := s.noted
			s.patch(roles, "a", `{"metadata":{"labels":{"theirs":"1"}}}`)
			if err := s.try(patch, s.resend(noted)); err != nil || s.rules() != 2 {
				t.Errorf("%d rules, %v", s.rules(), err)
			}
		})
		t.Run(name+" noted before the crash and not sent", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			object := s.made(roles, roleA)
			mark := operation.Mark{UID: string(object.GetUID()), ResourceVersion: object.GetResourceVersion()}
			if err := s.try(patch, s.resend(&mark)); err != nil || s.rules() != 2 {
				t.Errorf("%d rules, %v", s.rules(), err)
			}
		})
		t.Run(name+" noted before the crash, not sent, and changed by others since", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			object := s.made(roles, roleA)
			mark := operation.Mark{UID: string(object.GetUID()), ResourceVersion: object.GetResourceVersion(), Expected: "another"}
			s.patch(roles, "a", `{"metadata":{"labels":{"theirs":"1"}}}`)
			if err := s.try(patch, s.resend(&mark)); err != nil || s.rules() != 2 {
				t.Errorf("%d rules, %v", s.rules(), err)
			}
		})
		t.Run(name+" sent before the crash and changed by another hook since", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.made(roles, roleA)
			s.do(patch)
			noted := s.noted
			s.do(addOther)
			if err := s.try(patch, s.resend(noted)); err != nil || s.rules() != 3 {
				t.Errorf("%d rules, %v", s.rules(), err)
			}
		})
		t.Run(name+" noted before the crash, not sent, and changed by another hook since", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.made(roles, roleA)
			s.lose(patch)
			noted := s.noted
			s.do(addOther)
			if err := s.try(patch, s.resend(noted)); err != nil || s.rules() != 3 {
				t.Errorf("%d rules, %v", s.rules(), err)
			}
		})
		t.Run(name+" of an object changed between look and patch", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.made(roles, roleA)
			marks := 0
			s.noting = func(operation.Mark) {
				if marks++; marks <= 2 {
					s.patch(roles, "a", `{"metadata":{"labels":{"theirs":"`+strings.Repeat("x", marks)+`"}}}`)
				}
			}
			s.do(patch)
			if s.rules() != 2 || marks != 3 || s.get(roles, "a").GetLabels()["theirs"] != "xx" {
				t.Errorf("%d rules after %d tries, labels %v", s.rules(), marks, s.get(roles, "a").GetLabels())
			}
		})
		t.Run(name+" of an object that always changes", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.made(roles, roleA)
			marks := 0
			s.noting = func(operation.Mark) {
				marks++
				s.patch(roles, "a", `{"metadata":{"labels":{"theirs":"`+strings.Repeat("x", marks)+`"}}}`)
			}
			s.refuses(patch, s.attempt(), "other writers changed it during each of 10 attempts to write it")
		})
		t.Run(name+" of an object created again since the crash", func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.made(roles, roleA)
			s.do(patch)
			noted := s.noted
			s.do(`{"operation":"Delete","kind":"Role","namespace":"NS","name":"a"}`)
			s.made(roles, roleA)
			if err := s.try(patch, s.resend(noted)); err != nil || s.rules() != 2 {
				t.Errorf("%d rules, %v", s.rules(), err)
			}
		})
	}
}

func TestAPatchThatChangesNothingIsNotSent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	before := s.made(configMaps, configMapA)
	s.do(`{"operation":"JSONPatch","kind":"ConfigMap","namespace":"NS","name":"a","jsonPatch":[{"op":"replace","path":"/data/k","value":"v"}]}`)
	s.do(`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data.k = \"v\""}`)
	if after := s.get(configMaps, "a"); after.GetResourceVersion() != before.GetResourceVersion() || s.noted != nil {
		t.Errorf("version %s became %s, noted %+v", before.GetResourceVersion(), after.GetResourceVersion(), s.noted)
	}
}

func TestAPatchThatDoesNotFitIsRefusedWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.made(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {password: hunter2}}`)
	for patch, want := range map[string]string{
		`{"operation":"JSONPatch","kind":"ConfigMap","namespace":"NS","name":"a","jsonPatch":[{"op":"remove","path":"/data/none"}]}`:                                                       "the JSON patch does not fit the current object",
		`{"operation":"JSONPatch","kind":"ConfigMap","namespace":"NS","name":"a","jsonPatch":[{"op":"test","path":"/data/password","value":"x"},{"op":"remove","path":"/data/password"}]}`: "testing value /data/password failed",
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data.password | keys"}`:                                                                        "the jqFilter fails for the current object: keys cannot be applied to: string …",
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data.password | error"}`:                                                                       "the jqFilter fails for the current object: it ends with an error that the program throws",
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data.password | tonumber"}`:                                                                    "the jqFilter fails for the current object: tonumber cannot be applied to …",
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data.password *= 200000000"}`:                                                                  "the jqFilter fails for the current object: needs more than 128 MiB of memory",
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":"repeat(.)"}`:                                                                                    "the jqFilter fails for the current object: more than 10000 outputs",
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data[]"}`:                                                                                      "the jqFilter must return one object",
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data"}`:                                                                                        "is not an object: it has no kind",
	} {
		s.refuses(patch, s.attempt(), want)
		if err := s.try(patch, s.attempt()); strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	}
	s.shows("a", `{"password":"hunter2"}`)
}

func TestPatchesReachSubresources(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.made(deployments, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 0, paused: true, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)
	condition := `{"type":"%","status":"True","reason":"Said","message":"so","lastUpdateTime":"2020-01-01T00:00:00Z","lastTransitionTime":"2020-01-01T00:00:00Z"}`
	has := func(name string) bool {
		text, err := json.Marshal(s.get(deployments, "a").Object["status"])
		return err == nil && strings.Contains(string(text), `"`+name+`"`)
	}
	s.do(`{"operation":"MergePatch","kind":"Deployment","namespace":"NS","name":"a","subresource":"/status","mergePatch":{"status":{"conditions":[` + strings.ReplaceAll(condition, "%", "Merged") + `]}}}`)
	if !has("Merged") {
		t.Error("MergePatch did not reach the status")
	}
	s.do(`{"operation":"JSONPatch","kind":"Deployment","namespace":"NS","name":"a","subresource":"status","jsonPatch":[{"op":"add","path":"/status/conditions/-","value":` + strings.ReplaceAll(condition, "%", "Patched") + `}]}`)
	if !has("Patched") || !has("Merged") {
		t.Error("JSONPatch did not reach the status")
	}
	s.do(`{"operation":"JQPatch","kind":"Deployment","namespace":"NS","name":"a","subresource":"/status","jqFilter":".status.conditions |= map(select(.type != \"Patched\"))"}`)
	if has("Patched") || !has("Merged") {
		t.Error("JQPatch did not reach the status")
	}
	s.do(`{"operation":"JQPatch","kind":"Deployment","namespace":"NS","name":"a","subresource":"scale","jqFilter":".spec.replicas += 2"}`)
	if n := s.get(deployments, "a").Object["spec"].(map[string]any)["replicas"]; n != int64(2) { //nolint:forcetypeassert // it is one
		t.Errorf("scaled to %v", n)
	}
}
