package redact_test

import (
	"strings"
	"testing"

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

func TestTextKeepsAllButSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
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
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
