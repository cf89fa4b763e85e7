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
