package source

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"addon-operator/internal/api"
)

func TestAnArchiveIsBesideTheIndex(t *testing.T) {
	t.Parallel()
	for index, want := range map[string]string{
		"https://host/index.yaml":             "https://host/a-1.tgz",
		"https://host":                        "https://host/a-1.tgz",
		"https://host/":                       "https://host/a-1.tgz",
		"https://host/dir/":                   "https://host/dir/a-1.tgz",
		"https://u:p@host:1/a/b/c.yaml?t=1&v": "https://u:p@host:1/a/b/a-1.tgz?t=1&v",
		"https://host/a%2Fb/c.yaml":           "https://host/a%2Fb/a-1.tgz", // an escaped slash does not separate directories
		"https://host/a%20b/c.yaml":           "https://host/a%20b/a-1.tgz",
	} {
		u, err := url.Parse(index)
		if err != nil {
			t.Fatal(err)
		}
		if got := beside(u, "a-1.tgz").String(); got != want {
			t.Errorf("%s: got %s, want %s", index, got, want)
		}
		if u.String() != index {
			t.Errorf("%s became %s", index, u)
		}
	}
}

func TestNamesOfArchivesAreEscaped(t *testing.T) {
	t.Parallel()
	u := &url.URL{Scheme: "https", Host: "host", Path: "/dir/index.yaml"}
	for name, want := range map[string]string{
		"a b-1.tgz":    "https://host/dir/a%20b-1.tgz",
		"a?b#c-1.tgz":  "https://host/dir/a%3Fb%23c-1.tgz",
		"a/../b-1.tgz": "https://host/dir/a%2F..%2Fb-1.tgz",
		"a%2Fb-1.tgz":  "https://host/dir/a%252Fb-1.tgz",
		"ä-1+2.tgz":    "https://host/dir/%C3%A4-1+2.tgz",
	} {
		if got := beside(u, name).String(); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestContentIsKnownByItsAddressWithoutCredentials(t *testing.T) {
	t.Parallel()
	f := newFetcher(t, Options{})
	sourceOf := func(rawURL string, secret map[string][]byte) string { return open(t, f, rawURL, secret).source }
	const rawURL = "git::https://{u}:{p}@{host}/{dir}/r.git//i.yaml?ref={ref}&t={t}"
	values := []string{"u", "me", "p", "pass", "host", "example.com", "dir", "d", "ref", "v1", "t", "token"}
	first := sourceOf(rawURL, secretOf(values...))
	if len(first) != 32 {
		t.Errorf("got %q", first)
	}
	for i := 0; i < len(values); i += 2 {
		changed := append([]string{}, values...)
		changed[i+1] = "other"
		key := values[i]
		isCredential := key == "u" || key == "p" || key == "t"
		if same := sourceOf(rawURL, secretOf(changed...)) == first; same != isCredential {
			t.Errorf("another value of %s: the source is the same: %v", key, same)
		}
	}
	if sourceOf(strings.Replace(rawURL, "i.yaml", "j.yaml", 1), secretOf(values...)) == first {
		t.Error("another index has the same source")
	}
	// A credential that is written in the URL of the spec is a part of the spec, so another
	// credential is another source.
	if sourceOf("https://a@host/i.yaml", nil) == sourceOf("https://b@host/i.yaml", nil) {
		t.Error("another URL of the spec has the same source")
	}
}

func TestAnAddressIsValidatedBeforeAnyRequest(t *testing.T) {
	t.Parallel()
	key := url.QueryEscape("-----BEGIN OPENSSH PRIVATE KEY-----\nnothing\n-----END OPENSSH PRIVATE KEY-----\n")
	for rawURL, want := range map[string]string{
		"git::ssh://git@host/r//i.yaml":                        "git over ssh needs a private key: add ?sshkey={key} to the URL, with a key in base64 in the Secret",
		"git::ssh://git@host/r//i.yaml?sshkey=bm90aGluZw":      "the parameter sshkey is not a private key in the format of OpenSSH or PEM, in base64",
		"git::ssh://git@host/r//i.yaml?sshkey=" + key:          "the parameter sshkey is not a private key in the format of OpenSSH or PEM, in base64",
		"git::ssh://git@host/r//i.yaml?sshkey=***":             "the parameter sshkey of the repository URL must be a private key in base64",
		"git::https://host/r//i.yaml?ref=a%20b":                "the reference of the repository URL is not valid",
		"git::https://host/r//i.yaml?ref=a%0Ab":                "the reference of the repository URL is not valid",
		"hg::https://host/r//i.yaml?rev=-1":                    "the reference of the repository URL is not valid",
		"git::https://host/r//i.yaml?depth=-1":                 "the parameter depth of the repository URL must be an integer of at least 0",
		"git::https://host/r//i.yaml?a=%zz":                    "the query of the repository URL is not valid",
		"git::https://host/r//a//i.yaml":                       `the path of the index must not contain ".", ".." or empty segments`,
		"git::https://host/r//./i.yaml":                        `the path of the index must not contain ".", ".." or empty segments`,
		"s3::https://host/b//i.yaml?aws_access_key_secret=K3y": "the parameters aws_access_key_id and aws_access_key_secret of the repository URL must be set together",
		"s3::https://host/b//i.yaml?aws_access_token=t":        "",
		"git::ssh://git:pass@host/r//i.yaml":                   "",
		"git::https://host/r//i.yaml?depth=0":                  "",
		"github.com//r//i.yaml":                                "addresses of github.com must have the form github.com/OWNER/REPOSITORY//PATH",
		"gitlab.com/o":                                         "addresses of gitlab.com must have the form gitlab.com/OWNER/REPOSITORY//PATH",
		"s3::https://host//i.yaml":                             "the URL names no bucket; it must have the form s3::https://HOST/BUCKET/PREFIX//PATH",
		"git::ssh://git@host/~/r//i.yaml?sshkey=***&ref=main":  "the parameter sshkey of the repository URL must be a private key in base64",
	} {
		address, err := Render(rawURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = newFetcher(t, Options{}).Open(address)
		switch {
		case want == "":
			if err != nil {
				t.Errorf("%s: %v", rawURL, err)
			}
		case err == nil || err.Error() != "while getting getter from factory: "+want:
			t.Errorf("%s: got %v, want %s", rawURL, err, want)
		}
	}
	_, err := newFetcher(t, Options{}).Open(Address{})
	if e, ok := errors.AsType[*Error](err); !ok || *e != (Error{Reason: api.EmptyURLError, Permanent: true, text: api.EmptyURLMessage}) {
		t.Errorf("an empty address: got %#v", err)
	}
}
