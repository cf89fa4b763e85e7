package source

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"addon-operator/internal/redact"
)

// A redactor removes the secret parts of a repository's address from texts.
type redactor struct {
	secrets func() []string // returns the secret parts without duplicates; they are found in the first call
}

// userinfo matches a URL up to the end of its user and password, and queries matches a URL with its query. The first
// group is the part to keep.
var (
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s"']*@`)
	queries  = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^?#\s"']*)\?[^\s"']*`)
)

// publicParameters are the query parameters whose values are not secret, if they are written in the URL and not taken
// from a Secret.
var publicParameters = map[string]bool{"ref": true, "rev": true, "depth": true, "region": true}

func newRedactor(h hidden) *redactor {
	return &redactor{secrets: sync.OnceValue(func() []string { return secretsIn(h) })}
}

// secretsIn returns the secret parts of an address without duplicates.
func secretsIn(h hidden) []string {
	secrets := slices.Clone(h.values)
	text := strings.TrimPrefix(h.url, forcedScheme.FindString(h.url))
	if expanded, _, err := expand(text); err == nil {
		text = expanded
	}
	if u, err := url.Parse(text); err == nil {
		secrets = append(secrets, secretsOf(u)...)
	} else if _, query, ok := strings.Cut(text, "?"); ok {
		secrets = append(secrets, query)
	}
	slices.Sort(secrets)
	return slices.DeleteFunc(slices.Compact(secrets), func(secret string) bool { return secret == "" })
}

func secretsOf(u *url.URL) []string {
	var secrets []string
	if u.User != nil {
		password, ok := u.User.Password()
		if ok {
			secrets = append(secrets, password, u.User.Username()+":"+password)
		}
		// A user name without a password can be a token, so it is redacted. A user name with a password, or for ssh,
		// is usually a common word such as "git", so it is not redacted here. If it is a value of the Secret, it is
		// redacted because all values of the Secret are.
		if !ok && u.Scheme != "ssh" {
			secrets = append(secrets, u.User.Username())
		}
	}
	if u.RawQuery != "" {
		secrets = append(secrets, u.RawQuery)
	}
	for name, values := range u.Query() {
		if !publicParameters[name] {
			secrets = append(secrets, values...)
		}
	}
	return secrets
}

// formsOf returns the forms in which a secret can occur in a text of at most the given length in bytes, such as quoted,
// escaped or encoded.
func formsOf(secret string, length int) []string {
	forms := []string{strings.ToValidUTF8(secret, "\uFFFD")}
	if len(secret)/4*3-2 > length { // the size of the shortest other form, the decoded base64
		return forms
	}
	quoted := strconv.Quote(secret)
	forms = append(forms,
		quoted[1:len(quoted)-1],
		url.QueryEscape(secret), url.PathEscape(secret), (&url.URL{Path: secret}).EscapedPath(), url.User(secret).String(),
		hex.EncodeToString([]byte(secret)),
	)
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		encoded := encoding.EncodeToString([]byte(secret))
		forms = append(forms, encoded, url.QueryEscape(encoded))
	}
	if decoded, err := base64.StdEncoding.DecodeString(secret); err == nil && len(decoded) > 3 && utf8Text(decoded) {
		forms = append(forms, string(decoded)) // a tool may decode a secret in base64 and print the result
	}
	return forms
}

func utf8Text(b []byte) bool {
	return !strings.ContainsFunc(string(b), func(r rune) bool { return r == unicode.ReplacementChar || r == 0 })
}

// clean removes secrets, users and queries of URLs, and control characters from a text, and limits
// its length.
func (r *redactor) clean(text string) string {
	const enough = 1000
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = userinfo.ReplaceAllString(text, "$1")
	text = r.replaceSecrets(text)
	text = printable(queries.ReplaceAllString(text, "$1"))
	if runes := []rune(text); len(runes) > enough {
		text = string(runes[:enough]) + "…"
	}
	return text
}

// A span is a part of a text, from one offset in bytes up to another.
type span struct{ from, to int }

// replaceSecrets replaces each form of a secret in a valid UTF-8 text with [redact.Mark]. It ignores case, because
// hexadecimal digits and escapes such as %2f can be in upper or lower case. It searches for one form at a time: a
// regular expression for all forms would need several KiB of memory for each byte of a secret.
func (r *redactor) replaceSecrets(text string) string {
	var found []span
	folded := fold(text)
	for _, secret := range r.secrets() {
		for _, form := range formsOf(secret, len(text)) {
			found = appendSpans(found, folded, fold(form))
		}
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	var out strings.Builder
	end := 0
	for _, s := range found {
		if s.from >= end {
			out.WriteString(text[end:s.from])
			out.WriteString(redact.Mark)
		}
		end = max(end, s.to) // forms can overlap, such as a password and a query that contains it
	}
	out.WriteString(text[end:])
	return out.String()
}

// appendSpans appends the spans of text that contain form.
func appendSpans(found []span, text, form string) []span {
	for from := 0; ; {
		at := strings.Index(text[from:], form)
		if at < 0 {
			return found
		}
		found = append(found, span{from + at, from + at + len(form)})
		from += at + len(form)
	}
}

// fold returns a valid UTF-8 text in lower case. A letter whose lower case has another size stays unchanged, so that
// offsets in the result are offsets in the text.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		if lower := unicode.ToLower(r); utf8.RuneLen(lower) == utf8.RuneLen(r) {
			return lower
		}
		return r
	}, text)
}

// WithoutCredentials removes from each URL in text the user, the password and the query, which can contain secrets.
func WithoutCredentials(text string) string {
	return queries.ReplaceAllString(userinfo.ReplaceAllString(text, "$1"), "$1")
}

// printable replaces each unprintable character with a blank, and trims blanks at the beginning and end.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
}
