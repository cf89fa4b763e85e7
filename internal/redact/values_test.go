package redact

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyWhatLooksSecretIsRedacted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, given, want string }{
		{"by key", `{"password":"x","user":"u"}`, `{"password":"(redacted)","user":"u"}`},
		{"numbers too, switches not", `{"dbPassword":1234,"secret":true,"token":null,"apiKey":""}`, `{"dbPassword":"(redacted)","secret":true,"token":null,"apiKey":""}`},
		{"below a secret key", `{"credentials":{"user":"u","list":["a",1]}}`, `{"credentials":{"list":["(redacted)","(redacted)"],"user":"(redacted)"}}`},
		{"where a secret is, is none", `{"secretName":"s","tokenPath":"/p","publicKey":"k","monkeys":3}`, `{"secretName":"s","tokenPath":"/p","publicKey":"k","monkeys":3}`},
		{"other ways to write it", `{"API_KEY":"a","private-key":"b","tls.key":"c",".dockerconfigjson":"d","accessTokens":["e"]}`, `{"API_KEY":"(redacted)","private-key":"(redacted)","tls.key":"(redacted)",".dockerconfigjson":"(redacted)","accessTokens":["(redacted)"]}`},
		{"a variable of a container", `{"env":[{"name":"DB_PASSWORD","value":"x"},{"name":"DB_USER","value":"u"}]}`, `{"env":[{"name":"DB_PASSWORD","value":"(redacted)"},{"name":"DB_USER","value":"u"}]}`},
		{
			"a Secret", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","namespace":"ns","annotations":{"last":"all of it"}},"type":"Opaque","data":{"a":"eA=="}}`,
			`{"apiVersion":"v1","data":{"a":"(redacted)"},"kind":"Secret","metadata":{"annotations":{"last":"(redacted)"},"name":"n","namespace":"ns"},"type":"Opaque"}`,
		},
		{
			"what a binding sees of Secrets", `{"binding":"s","kind":"secrets","queue":"main","count":1,"objects":[{"kind":"secrets","name":"n","filterResult":{"a":"x"}}]}`,
			`{"binding":"s","kind":"secrets","queue":"main","count":1,"objects":[{"kind":"secrets","name":"n","filterResult":{"a":"(redacted)"}}]}`,
		},
		{"a patch", `[{"op":"add","path":"/m/db/password","value":"x"},{"op":"add","path":"/m/a","value":{"token":"y","b":1}}]`, `[{"op":"add","path":"/m/db/password","value":"(redacted)"},{"op":"add","path":"/m/a","value":{"token":"(redacted)","b":1}}]`},
	} {
		got, err := Redactor{}.Values(json.RawMessage(test.given))
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var have, want any
		if err := json.Unmarshal(b, &have); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, have); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

// TestTheSameSecretHasTheSameHashEverywhere redacts values, patches, descriptions of values, and Secrets.
func TestTheSameSecretHasTheSameHashEverywhere(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 2, 10, 4, 30, 0, time.UTC)
	r := Redactor{Secret: []byte("of the store"), Prefix: "/web", Since: map[string]time.Time{"/web/db/password": at, "/web/tokens": at}}
	hash := func(r Redactor, secret string) string {
		t.Helper()
		mark, isText := r.hide(secret, place{secret: true}).(string)
		if !isText || !regexp.MustCompile(`^\(redacted [0-9a-f]{8}\)$`).MatchString(mark) {
			t.Fatalf("the mark is %s", mark)
		}
		return mark[len("(redacted ") : len(mark)-1]
	}
	x := hash(r, "x")
	if x == hash(r, "y") || x == hash(Redactor{Secret: []byte("of another store")}, "x") {
		t.Error("another secret, or another store, has the same hash")
	}
	for _, test := range []struct{ name, given, want string }{
		{"values", `{"db":{"password":"x","user":"u"}}`, `{"db":{"password":"(redacted X, since 2026-11-02 10:04Z)","user":"u"}}`},
		{"values of which no layer has a date", `{"password":"x"}`, `{"password":"(redacted X)"}`},
		{"a list", `{"tokens":["x"]}`, `{"tokens":["(redacted X, since 2026-11-02 10:04Z)"]}`},
		{
			"a patch", `[{"op":"add","path":"/web/a","value":{"token":"x"},"at":"2026-11-03T11:00:00Z"}]`,
			`[{"op":"add","path":"/web/a","value":{"token":"(redacted X, since 2026-11-03 11:00Z)"},"at":"2026-11-03T11:00:00Z"}]`,
		},
		{
			"a Secret", `{"kind":"Secret","metadata":{"name":"n"},"data":{"a":"eA=="},"stringData":{"b":"x"}}`,
			`{"kind":"Secret","metadata":{"name":"n"},"data":{"a":"(redacted X)"},"stringData":{"b":"(redacted X)"}}`,
		},
	} {
		got, err := r.Values(json.RawMessage(test.given))
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(test.want, " X", " "+x)), &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

func FuzzRedactKeepsTheShape(f *testing.F) {
	f.Add(`{"password":{"a":[1,"x",null]},"kind":"Secret"}`)
	f.Add(`{"password":{"kind":"Secret","metadata":{"name":"a"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			t.Skip()
		}
		out, err := Redactor{}.Values(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Redactor{}.Values(out)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(out, again); d != "" {
			t.Errorf("a second time changes something:\n%s", d)
		}
	})
}
