package source

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func secretOf(pairs ...string) map[string][]byte {
	secret := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		secret[pairs[i]] = []byte(pairs[i+1])
	}
	return secret
}

func TestPlaceholdersAreNamedOnceInTheirOrder(t *testing.T) {
	got := Placeholders("https://{user}:{pass}@host/{dir}/{user}?t={a}b}&{}")
	if want := []string{"user", "pass", "dir", "a", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Placeholders("https://host/index.yaml"); got != nil {
		t.Errorf("got %q for a URL without placeholders", got)
	}
}

func TestValuesOfASecretAreEscapedForTheirPosition(t *testing.T) {
	for name, test := range map[string]struct {
		url    string
		secret map[string][]byte
		want   string
	}{
		"without placeholders":        {"https://host/index.yaml?a=b", nil, "https://host/index.yaml?a=b"},
		"only a placeholder in query": {"https://host/i.yaml?{k}", secretOf("k", "a=b"), "https://host/i.yaml?a%3Db"},
		"userinfo":                    {"https://{u}:{p}@host/i.yaml", secretOf("u", "me@x", "p", "p/{ #?"), "https://me%40x:p%2F%7B%20%23%3F@host/i.yaml"},
		"path keeps slashes":          {"https://host/{p}/i.yaml", secretOf("p", "kyma-project/addons x?"), "https://host/kyma-project/addons%20x%3F/i.yaml"},
		"path adds no separator":      {"git::https://host/{p}//i.yaml", secretOf("p", "a//b/"), "git::https://host/a/%2Fb%2F//i.yaml"},
		"query":                       {"https://host/i.yaml?t={t}&x=1", secretOf("t", "a b+c/d&e=f"), "https://host/i.yaml?t=a%20b%2Bc%2Fd%26e%3Df&x=1"},
		"trailing newline":            {"https://host/i.yaml?t={t}", secretOf("t", "abc\r\n"), "https://host/i.yaml?t=abc"},
		"the same one twice":          {"https://host/{t}?t={t}", secretOf("t", "a/b"), "https://host/a/b?t=a%2Fb"},
		"host":                        {"https://{h}/i.yaml", secretOf("h", "example.com:8443"), "https://example.com:8443/i.yaml"},
		"scp form":                    {"git::{u}@host:{p}//i.yaml", secretOf("u", "a b", "p", "o/r.git"), "git::a%20b@host:o/r.git//i.yaml"},
		"shorthand":                   {"github.com/{o}/r//i.yaml?ref={r}", secretOf("o", "me", "r", "a/b"), "github.com/me/r//i.yaml?ref=a%2Fb"},
		"newlines of the URL":         {"https://host/\n{p}\n", secretOf("p", "a"), "https://host/a"},
	} {
		t.Run(name, func(t *testing.T) {
			address, err := Render(test.url, test.secret)
			if err != nil {
				t.Fatal(err)
			}
			if address.hidden().url != test.want {
				t.Errorf("got  %s\nwant %s", address.hidden().url, test.want)
			}
		})
	}
}

func TestMissingValuesOfASecretAreNamed(t *testing.T) {
	_, err := Render("https://{a}@host/{b}", nil)
	if want := "template fields `[{a} {b}]` provided but secretRef is empty"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = Render("https://{a}@host/{b}", secretOf("a", "x"))
	if want := "secret does not contain `b` field"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = Render("https://{a}/i.yaml", secretOf("a", "evil@host/x"))
	if err == nil || !strings.Contains(err.Error(), "`a`") || strings.Contains(err.Error(), "evil") {
		t.Errorf("got %v for a host with a user", err)
	}
}

func TestTooLongURLsAndValuesAreRefused(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	for name, test := range map[string]struct{ url, value, want string }{
		"longest value":    {"https://host/i.yaml?t={t}", long(maxValue) + "\n", ""},
		"too long a value": {"https://host/i.yaml?t={t}", long(maxValue + 1), "the value of `t` in the Secret has 65537 bytes, more than the limit of 65536; store a shorter value"},
		"too long a URL":   {"https://host/" + long(maxURL), "", "the repository URL has 262157 bytes, more than the limit of 262144; shorten it"},
		"too many values": {
			"https://host/i.yaml?" + strings.Repeat("{t}", 10_000), long(maxValue),
			"the repository URL has more than the limit of 262144 bytes after its placeholders are replaced; shorten it, or the values in the Secret",
		},
	} {
		_, err := Render(test.url, secretOf("t", test.value))
		if got := fmt.Sprint(err); test.want != "" && got != test.want || test.want == "" && err != nil {
			t.Errorf("%s: the error is %s, want %s", name, got, test.want)
		}
	}
}

func TestAnAddressNeverPrintsValuesOfTheSecret(t *testing.T) {
	const secret = "S3cr3t-Value"
	address, err := Render("https://{u}@host/i.yaml?t={u}", secretOf("u", secret))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, address), fmt.Sprintf(verb, &address), fmt.Sprintf(verb, struct{ a Address }{address}))
	}
	encoded, err := json.Marshal(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts, string(encoded)) {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
			t.Errorf("the value is in %s", text)
		}
	}
}

func TestRepositoryURLsAreParsed(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("-----BEGIN KEY-----\nÿ>?\n"))
	for name, test := range map[string]struct {
		url, want string
		develop   bool
	}{
		"https":                  {"https://host/a/index.yaml?t=1", `http https://host/a/index.yaml?t=1 index= ref= key=`, false},
		"https in capitals":      {"HTTPS://host/index.yaml", `http https://host/index.yaml index= ref= key=`, false},
		"https with two slashes": {"https://host/a//b.yaml", `http https://host/a//b.yaml index= ref= key=`, false},
		"http":                   {"http://u:p@host/index.yaml", `http http://u:p@host/index.yaml index= ref= key=`, true},
		"file":                   {"file:///a/index.yaml", `file file:///a/index.yaml index= ref= key=`, true},
		"git":                    {"git::https://host/r.git//a/i.yaml?ref=v1&depth=3&x=y", `git https://host/r.git?x=y index=a/i.yaml ref=v1 key=`, false},
		"git over ssh":           {"git::ssh://git@host:22/o/r.git//i.yaml?sshkey=" + url.QueryEscape(key), "git ssh://git@host:22/o/r.git index=i.yaml ref= key=-----BEGIN KEY-----\nÿ>?\n", false},
		"a key with plus signs":  {"git::ssh://git@host/o/r.git//i.yaml?sshkey=" + key, "git ssh://git@host/o/r.git index=i.yaml ref= key=-----BEGIN KEY-----\nÿ>?\n", false},
		"scp form":               {"git::git@host:o/r.git//a/i.yaml?ref=x", `git ssh://git@host/~scp/o/r.git index=a/i.yaml ref=x key=`, false},
		"scp form without git":   {"git@host:o/r.git//a/i.yaml", `git ssh://git@host/~scp/o/r.git index=a/i.yaml ref= key=`, false},
		"github":                 {"github.com/o/r//a/i.yaml?ref=v1", `git https://github.com/o/r.git index=a/i.yaml ref=v1 key=`, false},
		"github with git":        {"git::github.com/o/r.git//i.yaml", `git https://github.com/o/r.git index=i.yaml ref= key=`, false},
		"gitlab, one slash":      {"gitlab.com/o/r/a/i.yaml", `git https://gitlab.com/o/r.git index=a/i.yaml ref= key=`, false},
		"bitbucket":              {"bitbucket.org/o/r//i.yaml", `git https://bitbucket.org/o/r.git index=i.yaml ref= key=`, false},
		"git in a directory":     {"git::file:///a/r.git//i.yaml?ref=v1", `git file:///a/r.git index=i.yaml ref=v1 key=`, true},
		"hg":                     {"hg::https://host/r//i.yaml?rev=1", `hg https://host/r index=i.yaml ref=1 key=`, false},
		"s3":                     {"s3::https://host/bucket/p//a/i.yaml?aws_access_key_id=I&aws_access_key_secret=S&region=r&aws_access_token=T", `s3 https://host/bucket/p index=a/i.yaml ref= key= s3={I S T r}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := parse(test.url, test.develop)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s index=%s ref=%s key=%s", l.kind, l.root, l.index, l.ref, l.privateKey)
			if l.s3 != (s3Access{}) {
				got += fmt.Sprintf(" s3=%v", l.s3)
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestUnsupportedRepositoryURLsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"ftp://x/i.yaml":                              "not supported scheme 'ftp' for addons repository",
		"gcs::https://x/b//i.yaml":                    "not supported scheme 'gcs' for addons repository",
		"http://x/i.yaml":                             "not supported scheme 'http' for addons repository; only develop mode allows it",
		"file:///i.yaml":                              "not supported scheme 'file' for addons repository; only develop mode allows it",
		"git::http://x/r//i.yaml":                     "not supported scheme 'http' for addons repository; only develop mode allows it",
		"git::file:///r//i.yaml":                      "not supported scheme 'file' for addons repository; only develop mode allows it",
		"s3::http://x/r//i.yaml":                      "not supported scheme 'http' for addons repository; only develop mode allows it",
		"git::ext::sh -c x//i.yaml":                   "not supported scheme 'git::ext'",
		"git::https://x/r.git":                        "index path needs to be provided",
		"git::https://x/r.git//":                      "index path needs to be provided",
		"git::https://x/r.git//a/../../i.yaml":        "the path of the index must not contain",
		"git::https://x/r.git//i.yaml?depth=x":        "the parameter depth",
		"git::https://x/r.git//i.yaml?sshkey=%25":     "the parameter sshkey",
		"git::https://x/r.git//i.yaml?ref=--upload":   "the reference of the repository URL is not valid",
		"github.com/o":                                "addresses of github.com must have the form",
		"https://":                                    "the repository URL names no host",
		"https:///i.yaml":                             "the repository URL names no host",
		"http//badurl":                                "the repository URL has no scheme",
		"example.com/index.yaml":                      "the repository URL has no scheme",
		"https://h ost/i.yaml":                        "the repository URL is not a valid URL",
		"s3::https://h/b//i.yaml?aws_access_key_id=":  "",
		"s3::https://h/b//i.yaml?aws_access_key_id=a": "must be set together",
	} {
		_, err := parse(text, false)
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestDevelopModeAllowsOnlyTheSchemesThatAKindCanRead(t *testing.T) {
	for _, text := range []string{"http://x/i.yaml", "file:///i.yaml", "git::http://x/r//i.yaml", "git::file:////r//i.yaml", "s3::http://x/b//i.yaml"} {
		if _, err := parse(text, true); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, scheme := range map[string]string{
		"file::http://x/i.yaml": "http", "file::https://x/i.yaml": "https", "s3::file:///b//i.yaml": "file",
		"http::file:///b//i.yaml": "file", "s3::ssh://git@x/b//i.yaml": "ssh",
	} {
		want := "not supported scheme '" + scheme + "' for addons repository"
		for _, develop := range []bool{true, false} {
			if _, err := parse(text, develop); err == nil || err.Error() != want {
				t.Errorf("%s, in develop mode: %v: got %v, want %q", text, develop, err, want)
			}
		}
	}
}

func TestRedactedTextsContainNoFormOfASecret(t *testing.T) {
	const secret = "pA/ss w+rd{%"
	address, err := Render("git::https://me:{p}@host/r//i.yaml?t={p}&inline=inline-token&ref=main", secretOf("p", secret))
	if err != nil {
		t.Fatal(err)
	}
	r := newRedactor(address.hidden())
	for _, form := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), fmt.Sprintf("%q", secret), strings.ToLower(url.QueryEscape(secret)),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("me:" + secret)), "inline-token",
		strings.ToLower(secret),
	} {
		text := r.clean("dial " + form + " for https://me:" + form + "@host/r?t=" + form + ": refused\x1b[31m")
		if strings.Contains(text, strings.Trim(form, `"`)) || strings.Contains(text, "\x1b") {
			t.Errorf("%s is in %s", form, text)
		}
	}
	if text := r.clean("reference main not found on host"); text != "reference main not found on host" {
		t.Errorf("a text without secrets became %s", text)
	}
}

// TestOverlappingSecretsAreRedactedAsAWhole uses three secrets: two overlap in a text, and the third is a part of the
// first.
func TestOverlappingSecretsAreRedactedAsAWhole(t *testing.T) {
	address, err := Render("https://host/{a}/{b}/{c}", secretOf("a", "abcdef", "b", "defghi", "c", "ef"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRedactor(address.hidden())
	for text, want := range map[string]string{
		"x ABCdefGHI y": "x (redacted) y",
		"x abcdef y":    "x (redacted) y",
		"x efef y":      "x (redacted)(redacted) y",
		"İ ÄEF \xff ef": "İ Ä(redacted) \uFFFD (redacted)", // the lower case of İ has another size
		"abcde":         "abcde",
	} {
		if got := r.clean(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestMessagesOfALongSecretNeedLittleMemory redacts texts with the longest values that a URL can have.
func TestMessagesOfALongSecretNeedLittleMemory(t *testing.T) {
	random := make([]byte, maxValue)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	for name, value := range map[string][]byte{
		"base64": []byte(base64.StdEncoding.EncodeToString(random[:maxValue/4*3])), "letters": bytes.Repeat([]byte("a"), maxValue), "binary": random,
	} {
		address, err := Render("https://host/index.yaml?token={t}", map[string][]byte{"t": value})
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string]string{"short": "connection refused", "long": "GET " + address.hidden().url} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := newRedactor(address.hidden()).clean(text)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 50<<20 {
				t.Errorf("%s: a %s text needs %d MiB", name, what, n>>20)
			}
			if want := map[string]string{"short": text, "long": "GET https://host/index.yaml"}[what]; got != want {
				t.Errorf("%s: the %s text became %.200q, want %q", name, what, got, want)
			}
		}
	}
}

// TestAUserWithAPasswordIsRedactedOnlyIfItComesFromASecret checks that the user of a URL with a password is redacted
// only if it comes from a Secret. Other users, such as git, are also ordinary words in messages.
func TestAUserWithAPasswordIsRedactedOnlyIfItComesFromASecret(t *testing.T) {
	const text = "while cloning the git repository"
	for rawURL, want := range map[string]string{
		"git::ssh://git:{p}@host/r//i.yaml":   text,
		"git::https://git:{p}@host/r//i.yaml": text,
		"git::https://git@host/r//i.yaml":     "while cloning the (redacted) repository", // without a password, the user can be a token
		"git::https://{u}:{p}@host/r//i.yaml": "while cloning the (redacted) repository",
	} {
		address, err := Render(rawURL, secretOf("p", "secret", "u", "git"))
		if err != nil {
			t.Fatal(err)
		}
		if got := newRedactor(address.hidden()).clean(text); got != want {
			t.Errorf("%s: got %q, want %q", rawURL, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"https://u:p@host/a/index.yaml?t=1", "git::git@host:o/r.git//a/i.yaml?ref=x", "github.com/o/r//i.yaml",
		"s3::https://host/bucket/p//a/i.yaml?aws_access_key_id=I&aws_access_key_secret=S", "hg::ssh://h/r//i.yaml?rev=-1", "git::file:////r//i",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parse(text, false)
		if err != nil {
			return
		}
		if s := l.root.Scheme; s != "https" && s != "ssh" {
			t.Errorf("%q has the scheme %q without develop mode", text, s)
		}
		if l.root.Hostname() == "" {
			t.Errorf("%q has no host", text)
		}
		for segment := range strings.SplitSeq(l.index, "/") {
			if segment == ".." {
				t.Errorf("%q leaves the repository by %q", text, l.index)
			}
		}
		if u := beside(l.root, "../a?b#c"); u.Host != l.root.Host || u.RawQuery != l.root.RawQuery {
			t.Errorf("%q and the archive %q have different hosts or queries", text, u)
		}
	})
}

func FuzzRender(f *testing.F) {
	f.Add("https://{a}:{b}@host/{a}/i.yaml?t={b}", "user\n", "p@ss/w?rd")
	f.Add("git::{a}@host:{b}//i.yaml", "git", "//x")
	f.Add("{a}://{b}", "https", "host")
	f.Add("//{a}", "a", "b")
	f.Add(" //{a}\n", "a", "b")
	f.Add("https://host/{a}?{b}#{a}", "#?", "")
	f.Add("/{a}/host", "\n", "")
	f.Add("https://host/{a}{b}/i", "", "")
	f.Add("https://host/i?x&{a}&{b}&{a}x&x{b}", "a", "b")
	f.Fuzz(func(t *testing.T, rawURL, a, b string) {
		const mark = "in no other text"
		if _, err := Render(rawURL, secretOf("a", a+mark, "b", b+mark)); err != nil && !strings.Contains(clean(rawURL), mark) && strings.Contains(err.Error(), mark) {
			t.Errorf("the error %q contains a value", err)
		}
		address, err := Render(rawURL, secretOf("a", a, "b", b))
		if err != nil {
			return
		}
		if len(Placeholders(rawURL)) == 0 {
			return
		}
		// A value must not change where the parts of the URL begin and end. So compare the rendered URL with the URL
		// for harmless values: both must have the same host and the same numbers of delimiters.
		plain, err := Render(rawURL, secretOf("a", "x", "b", "x"))
		if err != nil {
			t.Fatal(err)
		}
		with, errWith := url.Parse(strings.TrimPrefix(address.hidden().url, forcedScheme.FindString(address.hidden().url)))
		without, errWithout := url.Parse(strings.TrimPrefix(plain.hidden().url, forcedScheme.FindString(plain.hidden().url)))
		if errWith != nil || errWithout != nil || strings.Contains(clean(rawURL)[:shapeOf(clean(rawURL)).path], "{") {
			return
		}
		delimiters := func(a Address, u *url.URL) [5]int {
			whole, query := a.hidden().url, u.RawQuery
			return [5]int{strings.Count(whole, "?"), strings.Count(whole, "#"), strings.Count(query, "&"), strings.Count(query, "="), strings.Count(query, ";")}
		}
		if with.Host != without.Host || delimiters(address, with) != delimiters(plain, without) {
			t.Errorf("%q became %q, which has other parts than %q", rawURL, address.hidden().url, plain.hidden().url)
		}
	})
}
