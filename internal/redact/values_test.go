package redact

import (
	"encoding/base64"
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

// TestTheSameSecretHasTheSameHashEverywhere redacts values, a list, a patch and a Secret that contain the same secret.
// All marks must have the same hash.
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

// redacted returns the result of the function redact as JSON.
func redacted(t *testing.T, redact func() (any, error)) string {
	t.Helper()
	v, err := redact()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestASecretPathHidesTheWholeValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, given, want string }{
		{"/web/db/password", `"x"`, `"(redacted)"`},
		{"/web/credentials/user", `{"name":"u","list":[1,true]}`, `{"list":["(redacted)",true],"name":"(redacted)"}`},
		{"/web/a~1b.token", `1`, `"(redacted)"`},
		{"/web/db", `{"password":"x","user":"u"}`, `{"password":"(redacted)","user":"u"}`},
		{"/web/secretName", `"x"`, `"x"`},
		{"", `"x"`, `"x"`},
	} {
		if got := redacted(t, func() (any, error) { return Redactor{}.Value(test.path, json.RawMessage(test.given)) }); got != test.want {
			t.Errorf("%s at %s became %s, want %s", test.given, test.path, got, test.want)
		}
	}
}

func TestAValueAtAPathHasTheTimeOfTheNearestKnownValue(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	r := Redactor{Secret: []byte("s"), Since: map[string]time.Time{"/web": day(1), "/web/a": day(2), "/web/a~1b": day(3)}}
	for path, want := range map[string]string{
		"/web/a/token": "since 2026-01-02 00:00Z)", "/web/b/token": "since 2026-01-01 00:00Z)", "/web/a~1b/token": "since 2026-01-03 00:00Z)", "/other/token": "",
	} {
		got := redacted(t, func() (any, error) { return r.Value(path, "x") })
		if want == "" && strings.Contains(got, "since") || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		r := r
		r.Undated = true
		if got := redacted(t, func() (any, error) { return r.Value(path, "x") }); strings.Contains(got, "since") {
			t.Errorf("%s: %s has a date", path, got)
		}
	}
	keys := redacted(t, func() (any, error) {
		return Redactor{Secret: []byte("s"), Prefix: "/web", Since: r.Since}.Values(map[string]any{"a/b": map[string]any{"token": "x"}})
	})
	if !strings.Contains(keys, "since 2026-01-03 00:00Z)") {
		t.Errorf("below a key with a slash: %s", keys)
	}
}

func TestSecretsInTextsAreHiddenOnRequest(t *testing.T) {
	t.Parallel()
	given := json.RawMessage(`{"args":["--password hunter2","-v"],"password":"--user ann"}`)
	for texts, want := range map[bool]string{
		true: `{"args":["--password (redacted)","-v"],"password":"(redacted)"}`, false: `{"args":["--password hunter2","-v"],"password":"(redacted)"}`,
	} {
		if got := redacted(t, func() (any, error) { return Redactor{Texts: texts}.Values(given) }); got != want {
			t.Errorf("texts %t: %s, want %s", texts, got, want)
		}
	}
}

func TestAPrivateKeyIsASecretWhateverItsName(t *testing.T) {
	t.Parallel()
	const key, certificate = "-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----\n", "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	of := func(secret []byte, v any) string {
		return redacted(t, func() (any, error) {
			return Redactor{Secret: secret, Undated: true}.Values(map[string]any{"tls": map[string]any{"key": v}})
		})
	}
	hidden := of([]byte("s"), key)
	if !strings.HasPrefix(hidden, `{"tls":{"key":"(redacted `) {
		t.Errorf("a key: %s", hidden)
	}
	if again := of([]byte("s"), encoded(key)); again != hidden {
		t.Errorf("the key in base64: %s, want %s", again, hidden)
	}
	for name, v := range map[string]string{"after a certificate": certificate + key, "both in base64": encoded(certificate + key), "on one line": strings.ReplaceAll(key, "\n", `\n`), "in a kubeconfig": "users:\n- client-key-data: " + encoded(key)} {
		if got := of(nil, v); got != `{"tls":{"key":"(redacted)"}}` {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, v := range map[string]string{"a certificate": certificate, "a certificate in base64": encoded(certificate), "a part of base64": encoded(certificate)[:21], "empty": ""} {
		want := redacted(t, func() (any, error) { return map[string]any{"tls": map[string]any{"key": v}}, nil })
		if got := of(nil, v); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestOfASecretOnlyItsNamesAreShown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ given, want string }{
		"fields of the object": {
			`{"kind":"Secret","type":"Opaque","immutable":true,"data":{"a":"eA==","empty":""},"stringData":{"b":"x"},"other":["x"]}`,
			`{"data":{"a":"(redacted)","empty":""},"immutable":true,"kind":"Secret","other":["(redacted)"],"stringData":{"b":"(redacted)"},"type":"Opaque"}`,
		},
		"fields of the metadata": {
			`{"kind":"Secret","metadata":{"name":"n","uid":"u","labels":{"a":"b"},"annotations":{"a":"x"},"managedFields":[{"manager":"m"}]}}`,
			`{"kind":"Secret","metadata":{"annotations":{"a":"(redacted)"},"labels":{"a":"b"},"managedFields":[{"manager":"(redacted)"}],"name":"n","uid":"u"}}`,
		},
		"metadata that is no map": {`{"kind":"Secret","metadata":["x"]}`, `{"kind":"Secret","metadata":["(redacted)"]}`},
		"another kind":            {`{"kind":"ConfigMap","data":{"a":"x"}}`, `{"data":{"a":"x"},"kind":"ConfigMap"}`},
		"the kind in lower case":  {`{"kind":"secret","data":{"a":"x"}}`, `{"data":{"a":"(redacted)"},"kind":"secret"}`},
	} {
		if got := redacted(t, func() (any, error) { return Redactor{}.Values(json.RawMessage(test.given)) }); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestTheAppliedObjectIsRedactedLikeTheObject(t *testing.T) {
	t.Parallel()
	of := func(kind, applied string) string {
		text, err := json.Marshal(applied)
		if err != nil {
			t.Fatal(err)
		}
		return `{"kind":"` + kind + `","metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":` + string(text) + `}}}`
	}
	for name, test := range map[string]struct{ kind, applied, want string }{
		"an object": {
			"ConfigMap", `{"kind":"ConfigMap","data":{"password":"hunter2","user":"u"}}` + "\n",
			`{"data":{"password":"(redacted)","user":"u"},"kind":"ConfigMap"}`,
		},
		"a Secret in another object": {"Service", `{"kind":"Secret","data":{"a":"eA=="}}`, `{"data":{"a":"(redacted)"},"kind":"Secret"}`},
		"no JSON":                    {"ConfigMap", `{"data":{"password":"hunter2"`, "(redacted)"},
		"no object":                  {"ConfigMap", `"hunter2"`, "(redacted)"},
		"nothing":                    {"ConfigMap", "", ""},
	} {
		got := redacted(t, func() (any, error) { return Redactor{}.Values(json.RawMessage(of(test.kind, test.applied))) })
		if want := of(test.kind, test.want); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	secret := redacted(t, func() (any, error) { return Redactor{}.Values(json.RawMessage(of("Secret", `{"kind":"Secret"}`))) })
	if want := strings.ReplaceAll(of("Secret", "(redacted)"), `"b"`, `"(redacted)"`); secret != want {
		t.Errorf("a Secret: %s, want %s", secret, want)
	}
}

func TestTheHashOfSecretDataIsThatOfTheDecodedBytes(t *testing.T) {
	t.Parallel()
	r := Redactor{Secret: []byte("s")}
	hash := func(object string) string {
		t.Helper()
		v, err := r.Values(json.RawMessage(object))
		if err != nil {
			t.Fatal(err)
		}
		fields, _ := v.(map[string]any)
		for _, key := range []string{"data", "stringData"} {
			if data, isMap := fields[key].(map[string]any); isMap {
				mark, _ := data["a"].(string)
				return mark
			}
		}
		return ""
	}
	plain := hash(`{"kind":"Secret","stringData":{"a":"hunter2"}}`)
	if encoded := hash(`{"kind":"Secret","data":{"a":"aHVudGVyMg=="}}`); encoded != plain {
		t.Errorf("encoded %s, plain %s", encoded, plain)
	}
	if text := hash(`{"kind":"Secret","stringData":{"a":"aHVudGVyMg=="}}`); text == plain {
		t.Errorf("a text that looks encoded has the hash of the decoded one: %s", text)
	}
	if invalid := hash(`{"kind":"Secret","data":{"a":"hunter2"}}`); invalid != plain {
		t.Errorf("data that cannot be decoded: %s, plain %s", invalid, plain)
	}
}

func TestAValueThatIsNoJSONIsAnError(t *testing.T) {
	t.Parallel()
	for _, v := range []any{func() {}, json.RawMessage(`{"a":`)} {
		if got, err := (Redactor{}).Values(v); got != nil || err == nil {
			t.Errorf("Values: %v, %v", got, err)
		}
		if got, err := (Redactor{}).Value("/a", v); got != nil || err == nil {
			t.Errorf("Value: %v, %v", got, err)
		}
	}
}

func FuzzRedactKeepsTheShape(f *testing.F) {
	f.Add(`{"password":{"a":[1,"x",null]},"kind":"Secret"}`)
	f.Add(`{"password":{"kind":"Secret","metadata":{"name":"a"}}}`)
	f.Add(`{"kubectl.kubernetes.io/last-applied-configuration":"{\"token\":\"x\"}\n"}`)
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
