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

	"addon-operator/internal/redact"
)

// A redactor removes the secret parts of a repository's address from texts.
type redactor struct {
	secrets func() *regexp.Regexp // returns an expression that matches each secret in all its forms; compiled in the first call
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
	return &redactor{secrets: sync.OnceValue(func() *regexp.Regexp { return matchSecrets(h) })}
}

func matchSecrets(h hidden) *regexp.Regexp {
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
	var forms []string
	for _, secret := range secrets {
		if secret != "" {
			forms = append(forms, formsOf(secret)...)
		}
	}
	if len(forms) == 0 {
		return regexp.MustCompile(`\z.`) // matches nothing
	}
	// If a form is the beginning of another one, the longer form must be matched first.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	forms = slices.Compact(forms)
	for i, form := range forms {
		forms[i] = regexp.QuoteMeta(strings.ToValidUTF8(form, "\uFFFD"))
	}
	secret, err := regexp.Compile("(?i)" + strings.Join(forms, "|"))
	if err != nil {
		return regexp.MustCompile(`(?s).+`) // the secrets cannot be found, so remove the whole text
	}
	return secret
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

// formsOf returns the forms in which a secret can occur in a text, such as quoted, escaped or encoded.
func formsOf(secret string) []string {
	quoted := strconv.Quote(secret)
	forms := []string{
		secret, quoted[1 : len(quoted)-1],
		url.QueryEscape(secret), url.PathEscape(secret), (&url.URL{Path: secret}).EscapedPath(), url.User(secret).String(),
		hex.EncodeToString([]byte(secret)),
	}
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
	text = r.secrets().ReplaceAllString(text, redact.Mark)
	text = printable(queries.ReplaceAllString(text, "$1"))
	if runes := []rune(text); len(runes) > enough {
		text = string(runes[:enough]) + "…"
	}
	return text
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
