package hook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

func TestVerdictsAreRead(t *testing.T) {
	t.Parallel()
	patch := json.RawMessage(`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"remove","path":"/spec"}]`)
	for text, want := range map[string]hook.Verdict{
		`{"allowed":true}`: {Allowed: true},
		"\n{\"allowed\": false, \"message\": \"no\"}\n": {Message: "no"},
		`{}`: {},
		`{"allowed":true,"warnings":["a","b"],"later":1}`:            {Allowed: true, Warnings: []string{"a", "b"}},
		`{"allowed":true,"patch":` + string(patch) + `}`:             {Allowed: true, Patch: patch},
		`{"allowed":true,"patch":"` + inBase64(string(patch)) + `"}`: {Allowed: true, Patch: patch},
		`{"allowed":true,"patch":""}`:                                {Allowed: true},
		`{"allowed":true,"patch":null}`:                              {Allowed: true},
		`{"allowed":true,"patch":[]}`:                                {Allowed: true},
	} {
		got, err := hook.ParseVerdict([]byte(text), true)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestBadVerdictsAreErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"allowed: true":                                        "it is not the expected JSON object",
		`{"allowed":"yes"}`:                                    "it is not the expected JSON object",
		`{"allowed":true}{"allowed":true}`:                     "there is text after the JSON object",
		`{"allowed":true,"patch":"no!"}`:                       "patch: it is neither a list of operations nor base64 of one",
		`{"patch":"` + inBase64("{}") + `"}`:                   "patch: it is not a list of operations",
		`{"patch":[{"op":"add","path":"/a"}]}`:                 "patch: operation 0: add needs a value",
		`{"patch":[{"op":"put","path":"/a"}]}`:                 `patch: operation 0: op is "put", must be one of add`,
		`{"patch":[{"op":"remove"}]}`:                          "patch: operation 0: path is missing",
		`{"patch":[{"op":"remove","path":"a"}]}`:               `patch: operation 0: path is "a", must begin with /`,
		`{"patch":[{"op":"copy","path":"/a"}]}`:                "patch: operation 0: from is missing",
		`{"patch":[{"op":"move","path":"/a","from":"no/sl"}]}`: `patch: operation 0: from is "no/sl", must begin with /`,
	} {
		if _, err := hook.ParseVerdict([]byte(text), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tgives  %v\n\twant   %s", text, err, want)
		}
	}
	for _, empty := range []string{"", " \n"} {
		if _, err := hook.ParseVerdict([]byte(empty), false); !errors.Is(err, hook.ErrNoResponse) {
			t.Errorf("%q gives %v", empty, err)
		}
	}
	if _, err := hook.ParseVerdict([]byte(`{"allowed":true,"patch":[{"op":"remove","path":"/a"}]}`), false); err == nil {
		t.Error("a validating hook may patch")
	}
}

const asked = `{"apiVersion":"x.io/v1","kind":"C","metadata":{"name":"a","namespace":"n","uid":"1"}}`

func TestConvertedObjectsAreThoseAskedFor(t *testing.T) {
	t.Parallel()
	object := func(version, kind, name, uid string) string {
		return `{"apiVersion":"x.io/` + version + `","kind":"` + kind + `","metadata":{"name":"` + name + `","namespace":"n","uid":"` + uid + `","labels":{"new":"x"}},"spec":1}`
	}
	good := object("v2", "C", "a", "1")
	for text, want := range map[string]string{
		`{"convertedObjects":[` + good + `]}`: "",
		`{}`:                                  "convertedObjects: there are 0 objects, and 1 in the request",
		`{"convertedObjects":[` + good + `,` + good + `]}`:           "convertedObjects: there are 2 objects, and 1 in the request",
		`{"convertedObjects":[1]}`:                                   "convertedObjects[0]: it is no object",
		`{"convertedObjects":[` + object("v1", "C", "a", "1") + `]}`: `convertedObjects[0]: apiVersion is "x.io/v1", must be "x.io/v2"`,
		`{"convertedObjects":[` + object("v2", "D", "a", "1") + `]}`: `convertedObjects[0]: kind is "D", must be "C"`,
		`{"convertedObjects":[` + object("v2", "C", "b", "1") + `]}`: `convertedObjects[0]: metadata.name is "b", must be "a"`,
		`{"convertedObjects":[` + object("v2", "C", "a", "2") + `]}`: `convertedObjects[0]: metadata.uid is "2", must be "1"`,
		`{"convertedObjects":[{"apiVersion":"x.io/v2","kind":"C"}]}`: `convertedObjects[0]: metadata.namespace is "", must be "n"`,
		`{"convertedObjects":[` + good + `]} trailing`:               "there is text after the JSON object",
	} {
		got, err := hook.ParseConverted([]byte(text), []json.RawMessage{json.RawMessage(asked)}, "x.io/v2")
		if want == "" {
			if err != nil || len(got.Objects) != 1 || string(got.Objects[0]) != good {
				t.Errorf("%s gives %s, %v", text, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tgives  %v\n\twant   %s", text, err, want)
		}
	}
	got, err := hook.ParseConverted([]byte(`{"failedMessage":"cannot"}`), []json.RawMessage{json.RawMessage(asked)}, "x.io/v2")
	if err != nil || got.Failed != "cannot" {
		t.Errorf("a refusal is %+v, %v", got, err)
	}
}

func TestReviewIsToldToTheLetter(t *testing.T) {
	t.Parallel()
	review := json.RawMessage(`{"kind":"AdmissionReview", "request":{"uid":"1"}}`)
	for want, element := range map[string]hook.Element{
		`[{"binding":"a.b.c","type":"Validating","review":` + string(review) + `}]`: {
			Binding: "a.b.c", Type: hook.TypeValidating, Review: review,
		},
		`[{"binding":"a.b.c","type":"Mutating","review":` + string(review) + `,"snapshots":{"pods":[]}}]`: {
			Binding: "a.b.c", Type: hook.TypeMutating, Group: "g", Review: review, Snapshots: map[string][]hook.Item{"pods": {}},
		},
		`[{"binding":"up","type":"Conversion","fromVersion":"v1","toVersion":"x.io/v2","review":` + string(review) + `}]`: {
			Binding: "up", Type: hook.TypeConversion, FromVersion: "v1", ToVersion: "x.io/v2", Review: review,
		},
	} {
		got, err := hook.Encode([]hook.Element{element})
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
}

func TestResponsesComeBackByEitherName(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{Clock: time.Now})
	run := scriptRun(t, `
[[ $ADMISSION_RESPONSE_PATH == "$VALIDATING_RESPONSE_PATH" ]] || exit 3
echo '{"allowed":true}' > "$VALIDATING_RESPONSE_PATH"
echo '{"failedMessage":"x"}' > "$CONVERSION_RESPONSE_PATH"
sleep 0.05`)
	began := time.Now()
	result, err := r.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if string(result.Admission) != "{\"allowed\":true}\n" || string(result.Conversion) != "{\"failedMessage\":\"x\"}\n" {
		t.Errorf("responses %q and %q", result.Admission, result.Conversion)
	}
	if took := result.Usage.Took; took < 50*time.Millisecond || took > time.Since(began) {
		t.Errorf("it took %s by the clock", took)
	}
}

func TestAwaitedHookIsKilledAsSoonAsNobodyWaits(t *testing.T) {
	t.Parallel()
	// These times apply only if the operator stops.
	r := newRunner(t, hook.Options{TermAfter: 5 * time.Minute, KillAfter: 6 * time.Minute})
	for name, body := range map[string]string{"patient": "sleep 1000", "deaf": "trap '' TERM; while true; do sleep 0.1; done"} {
		run := scriptRun(t, body)
		run.Awaited = true
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		_, err := r.Run(ctx, run)
		cancel()
		if !errors.Is(err, hook.ErrInterrupted) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if took := time.Since(began); took > 90*time.Second {
			t.Errorf("%s: it was let run for %s", name, took)
		}
	}
}

// FuzzResponse checks that parsing any text as a response of a hook returns either a valid response or an error.
func FuzzResponse(f *testing.F) {
	f.Add(`{"allowed":true,"warnings":["x"],"patch":[{"op":"add","path":"/a","value":1}]}`, true)
	f.Add(`{"allowed":false,"message":"no","patch":"W10="}`, false)
	f.Add(`{"convertedObjects":[{"apiVersion":"x.io/v2","kind":"C","metadata":{"name":"a","namespace":"n","uid":"1"}}]}`, true)
	f.Add(`{"failedMessage":"x"}`, false)
	f.Fuzz(func(t *testing.T, text string, mutating bool) {
		v, err := hook.ParseVerdict([]byte(text), mutating)
		if err == nil && v.Patch != nil && (!mutating || !json.Valid(v.Patch)) {
			t.Errorf("%q gives the patch %q", text, v.Patch)
		}
		c, err := hook.ParseConverted([]byte(text), []json.RawMessage{json.RawMessage(asked)}, "x.io/v2")
		if err == nil && c.Failed == "" && (len(c.Objects) != 1 || !json.Valid(c.Objects[0])) {
			t.Errorf("%q gives the objects %q", text, c.Objects)
		}
	})
}

func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
