package redact_test

import (
	"strings"
	"testing"
	"time"

	"addon-operator/internal/redact"
)

func TestBeginningQuotesTheFirstLinesWithoutSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"jq: error: syntax error\nat line 2":                               "“jq: error: syntax error⏎ at line 2”",
		"\n\n{\"a\": 1,\n\n}\n":                                            "“{\"a\": 1,⏎ }”",
		"1\n2\n3\n4\n":                                                     "“1⏎ 2⏎ 3⏎ …”",
		"\x1b[31mred\x1b[0m \xff":                                          "“[31mred [0m ?”",
		`{"op":"add","path":"/web/token","value":"tok-123"`:                "“{\"op\":\"add\",\"path\":\"/web/token (redacted)”",
		"apiVersion: v1\nkind: Secret\ndata:\n  a: aHVudGVyMg==":           "“apiVersion: v1⏎ kind: Secret (redacted)”",
		"{\"dbPassword\":\n\"hunter2\"":                                    "“{\"dbPassword (redacted)”",
		`{"key":"-----BEGIN EC PRIVATE KEY-----\nMHcC`:                     `“{"key":"-----BEGIN EC PRIVATE KEY (redacted)”`,
		`{"key":"LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCk1IY0NB`:         `“{"key":"(redacted)”`,
		`ca: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t`:                         `“ca: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t”`,
		"tls: |\n  -----BEGIN PRIVATE KEY-----\n  MIIE\n":                  "“tls: |⏎ -----BEGIN PRIVATE KEY (redacted)”",
		"-----BEGIN PRIVATE KEY-----\nMIIE\npassword: hunter2":             "“-----BEGIN PRIVATE KEY (redacted)”",
		strings.Repeat("x", 130):                                           "“" + strings.Repeat("x", 120) + "…”",
		strings.Repeat(strings.Repeat("y", 10_000)+"\n", 4) + `"password"`: "“" + strings.Repeat("y", 120) + "…⏎ …”",
	} {
		if got := redact.Beginning([]byte(text)); got != want {
			t.Errorf("of %.40q: %s, want %s", text, got, want)
		}
	}
}

func TestNamesOfSecrets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"password": true, "dbPasswords": true, "tls.key": true, "api-key": true, "secretName": false, "publicKey": false, "author": false, "": false,
	} {
		if redact.Secret(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}

// checkTexts checks that redact.Text turns each key into its value.
func checkTexts(t *testing.T, texts map[string]string) {
	t.Helper()
	for text, want := range texts {
		if got := redact.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestTextKeepsAllButSecrets(t *testing.T) {
	t.Parallel()
	checkTexts(t, map[string]string{
		"created secret web-tls in 3 s":                       "created secret web-tls in 3 s",
		"secret web-tls not found":                            "secret web-tls not found",
		"password=hunter2 user=ann":                           "password=(redacted)",
		"user=ann DB_PASSWORD='hunter 2'":                     "user=ann DB_PASSWORD=(redacted)",
		`{"level":"info","msg":"login","password":"hunter2"}`: `{"level":"info","msg":"login","password":(redacted)`,
		"token: abc":                            "token: (redacted)",
		"+ mysql --user ann --password hunter2": "+ mysql --user ann --password (redacted)",
		"curl -H 'Authorization: Bearer eyJhbGciOi.x' https://ex.com": "curl -H 'Authorization: Bearer (redacted)' https://ex.com",
		"git clone https://ann:hunter2@git.example.com/x":             "git clone https://ann:(redacted)@git.example.com/x",
		"secretName: web-tls": "secretName: web-tls",
		"public_key=abc":      "public_key=abc",
		"a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb": "a\n(redacted)\nb",
		"password:":     "password:",
		"":              "",
		"the password ": "the password ",
	})
}

func TestAFlagOfOneDashHidesItsValue(t *testing.T) {
	t.Parallel()
	checkTexts(t, map[string]string{
		"mysql -password hunter2":           "mysql -password (redacted)",
		"mysql --db-password hunter2 -v":    "mysql --db-password (redacted)",
		"the mysql-password was hunter2":    "the mysql-password was hunter2",
		"run --token":                       "run --token",
		"run --token ":                      "run --token ",
		"run --verbose --token=hunter2 end": "run --verbose --token=(redacted)",
		"token\t:\thunter2":                 "token\t:\t(redacted)",
	})
}

func TestSecretsInStringsOfJSONAreHidden(t *testing.T) {
	t.Parallel()
	checkTexts(t, map[string]string{
		`{"applied":"{\"kind\":\"Secret\",\"data\":{\"password\":\"aHVudGVy\"}}"}`: `{"applied":"{\"kind\":\"Secret\",\"data\":{\"password\":(redacted)`,
		`{"msg":"\"login with {\\\"token\\\" : 1}"}`:                               `{"msg":"\"login with {\\\"token\\\" : (redacted)`,
	})
}

func TestTheValueBesideTheNameOfASecretIsHidden(t *testing.T) {
	t.Parallel()
	checkTexts(t, map[string]string{
		`core.EnvVar{Name:"DB_PASSWORD", Value:"hun\"ter", ValueFrom:nil}: field is immutable`: `core.EnvVar{Name:"DB_PASSWORD", Value:"(redacted)", ValueFrom:nil}: field is immutable`,
		`[{"name":"DB_PASSWORD","value":"hunter2"},{"name":"A","value":"b"}]`:                  `[{"name":"DB_PASSWORD","value":"(redacted)"},{"name":"A","value":"b"}]`,
		`{"name":"A","value":"b"},{"name":"TOKEN","value":"c"},{"name":"KEY_KEY","value":"d"}`: `{"name":"A","value":"b"},{"name":"TOKEN","value":"(redacted)"},{"name":"KEY_KEY","value":"(redacted)"}`,
		`"{\"name\":\"TOKEN\",\"value\":\"a\\\"b\"}"`:                                          `"{\"name\":\"TOKEN\",\"value\":\"(redacted)\"}"`,
		`{"name":"TOKEN","value":"cut`:                                                         `{"name":"TOKEN","value":"(redacted)`,
		`core.EnvVar{Name:"TOKEN", Value:"", ValueFrom:(*core.EnvVarSource)(0xc000)}`:          `core.EnvVar{Name:"TOKEN", Value:"", ValueFrom:(*core.EnvVarSource)(0xc000)}`,
		"[map[name:A value:b] map[name:DB_PASSWORD value:hunter2]]":                            "[map[name:A value:b] map[name:DB_PASSWORD value:(redacted)",
		"- name: DB_PASSWORD\n  value: hunter2\n- name: A\n  value: b":                         "- name: DB_PASSWORD\n  value: (redacted)\n- name: A\n  value: b",
		"\"name\": \"TOKEN\",\n\"value\": \"c\"":                                               "\"name\": \"TOKEN\",\n\"value\": (redacted)",
		`[{"op":"add","path":"/data/password","value":"a"},{"path":"/a","value":"b"}]`:         `[{"op":"add","path":"/data/password","value":"(redacted)"},{"path":"/a","value":"b"}]`,
		`{\"path\":\"/token/a~1b\",\"value\":{\"a\":1}}`:                                       `{\"path\":\"/token/a~1b\",\"value\":(redacted)`,
		"- op: add\n  path: /spec/token\n  value: a":                                           "- op: add\n  path: /spec/token\n  value: (redacted)",
		`{ "name" : "TOKEN" , "value" : "a" }`:                                                 `{ "name" : "TOKEN" , "value" : "(redacted)" }`,
		"- name: TOKEN\n  valueFrom: x":                                                        "- name: TOKEN\n  valueFrom: x",
	})
	for _, text := range []string{`Name:"TOKEN", Value:"a"}: b`, "map[name:TOKEN value:a]", "name: TOKEN\nvalue: a"} {
		if once := redact.Text(text); redact.Text(once) != once {
			t.Errorf("a second time, %q became %q", once, redact.Text(once))
		}
	}
}

func TestSecretsInBlocksOfYAMLAreHidden(t *testing.T) {
	t.Parallel()
	checkTexts(t, map[string]string{
		"- name: TOKEN\n  value: |\n    a\n\n    b\n- name: A\n  value: |\n    c": "- name: TOKEN\n  value: (redacted)\n- name: A\n  value: |\n    c",
		"password: >-\n  a\n  b\nname: c":                                         "password: (redacted)\nname: c",
		"+  - name: TOKEN\n+    value: |2-\n+      a\n     b: c":                  "+  - name: TOKEN\n+    value: (redacted)\n     b: c",
		"note: |\n  a\n  token: b\n  c":                                           "note: |\n  a\n  token: (redacted)\n  c",
	})
}

func TestPrivateKeysInBase64AreHidden(t *testing.T) {
	t.Parallel()
	checkTexts(t, map[string]string{
		`{"key":"LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCk1IY0NBUUU=","a":1}`: `{"key":"(redacted)","a":1}`,
		"    client-key-data: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1I":        "    client-key-data: (redacted)",
		"ca: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t":                             "ca: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
	})
}

func TestCredentialsOfHTTPAndURLsAreHidden(t *testing.T) {
	t.Parallel()
	checkTexts(t, map[string]string{
		"sent basic dXNlcjpodW50ZXIy":                       "sent basic (redacted)",
		"sent BEARER a.b-c~d+e/f=":                          "sent BEARER (redacted)",
		"a basic idea":                                      "a basic idea",
		"redis://:hunter2@cache:6379/0":                     "redis://:(redacted)@cache:6379/0",
		"http://ann@example.com/a:b@c":                      "http://ann@example.com/a:b@c",
		"from https://a:b@x.com to https://c:d@y.com, done": "from https://a:(redacted)@x.com to https://c:(redacted)@y.com, done",
		"postgres://example.com:5432/db":                    "postgres://example.com:5432/db",
	})
}

func TestThePortOfAURLIsNoPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"get http://localhost:8080/healthz", "dial http://localhost:8080: connection refused", "https://example.com:443?a=b", `{"url":"https://example.com:443","a":1}`,
		"http://[::1]:8080/", "(see https://example.com:443)", "from http://a:1, http://b:2; then http://c:3.",
	} {
		if got := redact.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"http://ann:8080@example.com:8080/": "http://ann:(redacted)@example.com:8080/",
		"http://ann:hunter2":                "http://ann:(redacted)",
		"http://ann:2hunter":                "http://ann:(redacted)",
		"http://ann:1:2@example.com":        "http://ann:(redacted)@example.com",
		"http://ann:12\"34@example.com":     "http://ann:(redacted)@example.com",
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if again := redact.Text(redact.Text(text)); again != want {
			t.Errorf("a second time, %q became %q", text, again)
		}
	}
}

func TestPrivateKeysAreHiddenToTheirEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"a key on one line": {"-----BEGIN PRIVATE KEY----- abc -----END PRIVATE KEY-----\nb", redact.Mark + "\nb"},
		"a key without end": {"a\n-----BEGIN EC PRIVATE KEY-----\nabc\ndef", "a\n" + redact.Mark},
		"two keys": {
			"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\nbetween\n-----BEGIN PRIVATE KEY-----\ny\n-----END PRIVATE KEY-----",
			redact.Mark + "\nbetween\n" + redact.Mark,
		},
		"a certificate": {"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----"},
	} {
		if got := redact.Text(test.text); got != test.want {
			t.Errorf("%s became %q, want %q", name, got, test.want)
		}
	}
}

func TestTheMarkOfAHashHasTheTimeInUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 1, 30, 59, 0, time.FixedZone("", 2*3600))
	for want, since := range map[string]time.Time{"(redacted 1234abcd)": {}, "(redacted 1234abcd, since 2026-01-01 23:30Z)": at} {
		if got := redact.Hashed("1234abcd", since); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
